"""Collectives: those of one rank, the same one on all ranks, its duration, and which rank came last.

A collective's kernel runs from the arrival of its own rank until all have got what they need. So the shortest
of its durations, that of the last arriver, is the transfer, and what the others take longer is waiting.
Sources: latency and skew as TraceLens' NCCL analyser defines them; bandwidths as nccl-tests do."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

import numpy as np
from msgspec import Struct

from laptime.records.overview import CollectiveRow
from laptime.records.profile import CollectiveUse
from laptime.trace import intervals, names, phases
from laptime.trace.columns import NONE, DeviceKind, Index, Ints, Mask
from laptime.trace.view import View, of_host

_KINDS = {
    "allreduce": "all_reduce", "crossdevicereduce": "all_reduce", "allgather": "all_gather",
    "reducescatter": "reduce_scatter", "alltoall": "all_to_all", "sendrecv": "send_recv",
    **{word: word for word in ("broadcast", "barrier", "gather", "scatter", "reduce", "send", "recv")},
}  # fmt: skip
"""By a name without anything but letters; `crossdevicereduce` is vLLM's own."""
_POINT_TO_POINT = {"send", "recv"}
_SIZES = {
    "double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2, "short": 2,
    "short int": 2, "char": 1, "byte": 1, "bool": 1, "unsigned char": 1, "signed char": 1,
}  # fmt: skip
_LETTERS = re.compile(r"[^a-z]")


class Collective(Struct, frozen=True, array_like=True):
    """One collective as one rank saw it."""

    name: str  # all_reduce, all_to_all ...; the kernel's name where no kind can be told from it
    # kind that its kernel's name tells (an all_to_all is a send_recv there); the same on all ranks
    kernel: str
    # group, group_size, sequence: as the file says; "" and -1 unknown
    group: str
    group_size: int
    sequence: int
    start_ns: int  # on the clock of the machine
    dur_ns: int
    bytes: int | None  # as in CollectiveRow
    dtype: str
    stream: int

    @property
    def end_ns(self) -> int:
        """The end on the clock of the machine."""
        return self.start_ns + self.dur_ns


Meeting = dict[int, Collective]  # the same collective on several ranks: by the index of the rank's share


@lru_cache(4096)
def kind(name: str) -> str:
    """`all_reduce` for allreduce_, ncclDevKernel_AllReduce_Sum_f32_RING_LL ...; "" for none."""
    letters = _LETTERS.sub("", name.lower())
    return next((word for key, word in _KINDS.items() if key in letters), "")


def of_rank(view: View) -> list[Collective]:
    """Kernels that communicate, by start; ranges on the host (gloo, MPI) in a trace without any."""
    trace = view.trace
    device, clock = trace.device, trace.base + trace.origin
    talks = names.rows(trace.texts, device.name, names.is_communication) & (device.kind == DeviceKind.KERNEL)
    rows = np.flatnonzero(talks)
    if not len(rows):
        return _on_host(view)
    annotation = _annotation(view, view.links.launch[rows])
    collectives = []
    for row, around in zip(rows.tolist(), annotation.tolist(), strict=True):
        text = trace.texts[device.name[row]]
        meta = trace.collectives[device.collective[row]] if device.collective[row] >= 0 else None
        said = kind(meta.name) if meta else kind(trace.texts[trace.host.name[around]]) if around >= 0 else ""
        name = said or kind(text) or names.short(text)
        if meta:
            size, dtype = _bytes(max(meta.elements_in, meta.elements_out), meta.dtype), meta.dtype
        else:
            size, dtype = _read_shape(view, around, name)
        collectives.append(
            Collective(
                name=name,
                kernel=kind(text) or names.short(text),
                group=meta.group if meta else "",
                group_size=meta.group_size if meta else NONE,
                sequence=meta.sequence if meta else NONE,
                start_ns=clock + int(device.start[row]),
                dur_ns=int(device.end[row] - device.start[row]),
                bytes=size,
                dtype=dtype,
                stream=int(device.stream[row]),
            )
        )
    return collectives


def _on_host(view: View) -> list[Collective]:
    trace, host = view.trace, view.trace.host
    clock = trace.base + trace.origin
    rows = np.flatnonzero(names.rows(trace.texts, host.name, names.is_host_collective))
    collectives = []
    for row in rows[np.argsort(host.start[rows], kind="stable")].tolist():
        name = kind(trace.texts[host.name[row]]) or trace.texts[host.name[row]]
        size, dtype = _read_shape(view, row, name)
        start, spent = clock + int(host.start[row]), int(host.end[row] - host.start[row])
        collectives.append(Collective(name, name, "", NONE, NONE, start, spent, size, dtype, NONE))
    return collectives


def _annotation(view: View, launch: Index) -> Index:
    """The nearest `nccl:...` range around each launch; NONE without."""
    host = view.trace.host
    is_range: Mask = names.rows(view.trace.texts, host.name, names.is_collective)
    rows = np.where(is_range, np.arange(len(host)), NONE).astype(np.int32)
    return of_host(intervals.inherit(view.links.calls, rows), launch)


def _read_shape(view: View, row: int, name: str) -> tuple[int | None, str]:
    """Bytes and dtype of the first tensor of a `nccl:...` range: what one rank gives."""
    host, texts = view.trace.host, view.trace.texts
    if row < 0 or host.shapes[row] < 0 or host.types[row] < 0:
        return None, ""
    try:
        shape, dtype = json.loads(texts[host.shapes[row]])[0], json.loads(texts[host.types[row]])[0]
        elements = prod(int(each) for each in shape) if shape else 0
    except (ValueError, TypeError, IndexError):
        return None, ""
    ranks = (view.trace.world or 0) if name == "all_gather" else 1
    return _bytes(elements * ranks, dtype) if elements * ranks else None, dtype


def _bytes(elements: int, dtype: str) -> int | None:
    """Size of so many elements; dtype as PyTorch (`Float`, `BFloat16`, `Float8_e4m3fn`) or C++ writes it."""
    word = dtype.lower().removeprefix("c10::").removeprefix("unsigned ")
    size = 1 if word.startswith("float8") else _SIZES.get(word)
    return elements * size if size and elements >= 0 else None


def meet(ranks: Sequence[Sequence[Collective]]) -> list[Meeting]:
    """The same collective on all ranks that have it, at least two.

    By group, kind and sequence number if the file has one; else in order: the n-th of a group (of a
    stream, if all ranks use the same ones) and kind. When a rank has more of them than another, its trace
    began earlier or ended later: the shift is taken at which most overlap in time. Sends and receives are
    left out."""
    numbered: dict[tuple[object, ...], Meeting] = defaultdict(dict)
    series: dict[tuple[object, ...], dict[int, list[Collective]]] = defaultdict(dict)
    streams = {tuple(sorted({collective.stream for collective in collectives})) for collectives in ranks}
    for rank, collectives in enumerate(ranks):
        counts: dict[tuple[object, ...], int] = defaultdict(int)
        for each in sorted(collectives, key=lambda one: one.start_ns):
            if each.name in _POINT_TO_POINT:
                continue
            if each.sequence >= 0:
                key: tuple[object, ...] = (each.group, each.kernel, each.sequence)
                numbered[*key, counts[key]][rank] = each
                counts[key] += 1
            else:
                place = each.stream if not each.group and len(streams) == 1 else each.group
                series[place, each.kernel].setdefault(rank, []).append(each)
    met = [*numbered.values(), *(one for lists in series.values() for one in _align(lists))]
    # If more ranks met than the group has, several groups share one name.
    whole = (m for m in met if len(m) > 1 and not any(0 < one.group_size < len(m) for one in m.values()))
    return sorted(whole, key=lambda one: min(each.start_ns for each in one.values()))


def _align(lists: dict[int, list[Collective]]) -> Iterable[Meeting]:
    """The n-th of each list together, after leading ones that the shortest list does not have."""
    shortest = min(lists.values(), key=len)
    shifts = {rank: _shift(shortest, collectives) for rank, collectives in lists.items()}
    for index in range(len(shortest)):
        yield {rank: collectives[index + shifts[rank]] for rank, collectives in lists.items()}


def _shift(short: list[Collective], long: list[Collective]) -> int:
    """Return how many of the longer list come before the first of the shorter one.

    As many as let most pairs overlap in time; if that does not say (other clocks), as many as leave the ends
    of pairs the most even distance."""
    number = len(short)
    if number == len(long):
        return 0
    start, end = _times(short)
    begin, stop = _times(long)
    fits = []
    for skip in range(len(long) - number + 1):
        pair = slice(skip, skip + number)
        overlaps = int(((begin[pair] < end) & (stop[pair] > start)).sum())
        fits.append((-overlaps, float(np.std(stop[pair] - end)), skip))
    return min(fits)[2]


def _times(collectives: list[Collective]) -> tuple[Ints, Ints]:
    start = np.array([one.start_ns for one in collectives], np.int64)
    return start, start + np.array([one.dur_ns for one in collectives], np.int64)


def offsets(met: Sequence[Meeting], ranks: int) -> list[int]:
    """Nanoseconds to add to each rank's times so that collectives end together, which they do within a
    transfer.

    All 0 when nine of ten collectives already have an instant at which all ranks are in them."""
    clock_offsets = [0] * ranks
    together = [max(o.start_ns for o in one.values()) < min(o.end_ns for o in one.values()) for one in met]
    if sum(together) >= 0.9 * len(together):
        return clock_offsets
    for rank in range(1, ranks):
        late = [one[0].end_ns - one[rank].end_ns for one in met if 0 in one and rank in one]
        clock_offsets[rank] = int(np.median(late)) if late else 0
    return clock_offsets


def row(met: Meeting, ranks: Sequence[int], offset: Sequence[int], zero: int) -> CollectiveRow:
    """Return a collective's row; `ranks`: numbers of the shares; `zero`: where the common clock starts."""
    start = {index: one.start_ns + offset[index] for index, one in met.items()}
    first, last = min(start, key=start.__getitem__), max(start, key=start.__getitem__)
    spent = [one.dur_ns for one in met.values()]
    sized = next((one for one in met.values() if one.bytes is not None), next(iter(met.values())))
    size = sized.group_size if sized.group_size > 0 else None
    name = next((one.name for one in met.values() if one.name != one.kernel), sized.name)
    latency = min(spent)
    speed = sized.bytes / latency * 1e9 if sized.bytes and latency else None
    return CollectiveRow(
        name=name,
        group=sized.group,
        ranks=sorted(ranks[index] for index in met),
        group_size=size,
        start_ns=start[first] - zero,
        latency_ns=latency,
        skew_ns=start[last] - start[first],
        first=ranks[first],
        last=ranks[last],
        waiting_ns=sum(spent) - latency * len(spent),
        duration_ns=sum(spent),
        bytes=sized.bytes,
        dtype=sized.dtype,
        algorithm_bandwidth=speed,
        bus_bandwidth=speed * bus_factor(name, size or len(met)) if speed else None,
    )


def bus_factor(name: str, ranks: int) -> float:
    """Bus bandwidth / algorithm bandwidth, as nccl-tests define it."""
    if name == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if name in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


SMALL = 1 << 20
"""Bytes below which a message takes about as long as an empty one: latency, not bandwidth (nccl-tests)."""


def uses(view: View) -> list[CollectiveUse]:
    """One row a kind and dtype, most exposed first; [] without collectives."""
    clock = view.trace.base + view.trace.origin
    begin, end = view.window
    groups: dict[tuple[str, str], list[Collective]] = {}
    for each in of_rank(view):
        if each.start_ns - clock < end and each.end_ns - clock > begin:
            groups.setdefault((each.name, each.dtype), []).append(each)
    # From the first launch of each backward to the end of the last work that it launched.
    host, device, launch = view.trace.host, view.trace.device, view.links.launch
    backward = intervals.of(host, phases.of_autograd(view))
    linked = np.flatnonzero(launch >= 0)
    at: Ints = host.start[launch[linked]]
    launched = linked[intervals.within(backward, at, at + 1) > 0]
    engine = intervals.join(backward, intervals.of(device, launched))
    computes = device.kind == DeviceKind.KERNEL
    computes &= ~names.rows(view.trace.texts, device.name, names.is_communication)
    computing = intervals.of(device, computes)
    rows = []
    for (kind, dtype), members in groups.items():
        start = np.array([member.start_ns - clock for member in members], np.int64)
        ranges = intervals.union(start, start + np.array([member.dur_ns for member in members], np.int64))
        alone = intervals.subtract(intervals.clip(ranges, begin, end), computing)
        computing = intervals.join(computing, alone)
        sizes = [member.bytes for member in members if member.bytes is not None]
        rows.append(
            CollectiveUse(
                kind=kind,
                dtype=dtype,
                calls=len(members),
                total_ns=sum(member.dur_ns for member in members),
                exposed_ns=alone.total,
                bytes=sum(sizes) if len(sizes) == len(members) else None,
                small=sum(size < SMALL for size in sizes),
                in_backward=int((intervals.within(engine, start, start + 1) > 0).sum()),
            )
        )
    return sorted(rows, key=lambda row: (-row.exposed_ns, -row.total_ns))
