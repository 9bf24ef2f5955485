"""Memory from `[memory]` events: totals over time, the peak, what was alive at it, allocations by operator.

An event belongs to the innermost operator on its thread at its time; its bytes count for that operator and
for all operators around it, once for each name.

Lies when: other programs, or allocators that PyTorch does not know, use the same device."""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from laptime.records.tables import OLDER, LiveAtPeak, Memory, MemoryPoint, MemoryRow
from laptime.trace import intervals, phases
from laptime.trace.columns import NONE, HostKind, Index, Ints, Mask, MemoryEvents, Rows
from laptime.trace.intervals import group
from laptime.trace.view import View, of_host

DEVICES = {
    0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 15: "hpu", 19: "mtia", 20: "privateuse",
}  # fmt: skip
"""c10::DeviceType of PyTorch, those that allocate."""
BUCKETS = 500  # a curve keeps the first, lowest, highest and last total of each of so many buckets
FEW = 0.01  # share of the peak below which a kind has no band of its own
OUTSIDE = "(no operator)"
_NO_ADDRESS = np.uint64(NONE % 2**64)


class _Owners(NamedTuple):
    """Which operators an event belongs to."""

    innermost: Index  # per event, a host row; NONE outside of all
    around: Index  # host row of the next operator around that; NONE without
    inside: intervals.Subtrees  # what lies in which operator
    outermost: Mask  # per row of it, whether it is an operator in no other one of its name


def memory(view: View) -> list[Memory]:
    """Memory of every device that has events, CPU last."""
    events = view.trace.memory
    if not len(events):
        return []
    owners = _owners(view)
    # Calls of each operator, by text; one directly inside another of the same name is the same call.
    host, parent = view.trace.host, view.links.calls.parent
    rows = np.flatnonzero(host.kind == HostKind.OPERATOR)
    above = parent[rows]
    same = (above >= 0) & (host.name[above] == host.name[rows]) & (host.kind[above] == HostKind.OPERATOR)
    calls = np.bincount(host.name[rows[~same]], minlength=len(view.trace.texts))
    devices = []
    for kind, index in sorted(set(zip(events.device_type.tolist(), events.device.tolist(), strict=True))):
        rows = np.flatnonzero((events.device_type == kind) & (events.device == index))
        devices.append(_device(view, owners, calls, rows, kind, index))
    return sorted(devices, key=lambda each: each.device == "cpu")


def device_name(kind: int, index: int) -> str:
    """`cpu`, `cuda:0` ... as PyTorch writes them."""
    name = DEVICES.get(kind, f"device type {kind}" if kind >= 0 else "device")
    return name if index < 0 or name == "cpu" else f"{name}:{index}"


def _device(view: View, owners: _Owners, calls: Ints, rows: Ints, kind: int, index: int) -> Memory:
    events = view.trace.memory
    totals = rows[events.allocated[rows] != NONE]
    peak = int(totals[np.argmax(events.allocated[totals])]) if len(totals) else None
    reserved = int(events.reserved[totals].max(initial=NONE))
    blocks = _blocks(events, rows)
    live, unknown = _live(view, owners, blocks, peak) if peak is not None else ([], None)
    holders = _holders(view, blocks, peak, unknown or 0) if peak is not None else []
    shown = _thin_out(events, totals)
    points = (column[shown].tolist() for column in (events.at, events.allocated, events.reserved))
    return Memory(
        device=device_name(kind, index),
        peak=int(events.allocated[peak]) if peak is not None else None,
        peak_at_ns=int(events.at[peak]) if peak is not None else None,
        reserved_peak=reserved if reserved > 0 else None,
        capacity=next(
            (a.memory for a in view.trace.accelerators if kind and a.id == index and a.memory), None
        ),
        curve=[MemoryPoint(*point) for point in zip(*points, strict=True)],
        kinds=_kinds(view, blocks, shown, peak) if peak is not None and len(shown) > 1 else [],
        live=live,
        unknown_live=unknown,
        holders=holders,
        operators=_places(view, rows)
        if bool((events.place >= 0).any())
        else _operators(view, owners, calls, rows),
        events=len(rows),
        blocks=int(((blocks.alloc >= 0) & blocks.freed).sum()),
        never_freed=int((~blocks.freed).sum()),
        freed_only=int((blocks.alloc < 0).sum()),
    )


def _owners(view: View) -> _Owners:
    host, links, events = view.trace.host, view.links, view.trace.memory
    innermost = np.full(len(events), NONE, np.int32)
    taking = links.calls.rows
    above = intervals.outlasting(host, links.calls)
    bounds = np.searchsorted(host.thread[taking], np.arange(len(view.trace.threads) + 1))
    order = np.argsort(events.thread, kind="stable")
    order = order[events.thread[order] >= 0]
    by_thread = np.split(order, np.flatnonzero(np.diff(events.thread[order])) + 1) if len(order) else []
    for on_thread in by_thread:
        thread = int(events.thread[on_thread[0]])
        rows = taking[bounds[thread] : bounds[thread + 1]]
        if not len(rows):
            continue
        # The last range to begin is the innermost, unless it is over: then one of those around it.
        last = np.searchsorted(host.start[rows], events.at[on_thread], side="right") - 1
        at = np.where(last >= 0, rows[last], NONE)
        over = (at >= 0) & (host.end[at] <= events.at[on_thread])
        while over.any():
            at[over] = above[at[over]]
            over = (at >= 0) & (host.end[at] <= events.at[on_thread])
        innermost[on_thread] = of_host(links.operator_of, at)
    operator = host.kind == HostKind.OPERATOR
    inside = intervals.subtrees(links.calls)
    outermost = inside.outermost(np.where(operator, host.name, NONE).astype(np.int32))
    return _Owners(innermost, of_host(links.operator_around(), innermost), inside, outermost)


def _operators(view: View, owners: _Owners, calls: Ints, rows: Ints) -> list[MemoryRow]:
    host, texts, events = view.trace.host, view.trace.texts, view.trace.memory
    innermost = owners.innermost[rows]
    size, innermost = events.bytes[rows][innermost >= 0], innermost[innermost >= 0]
    grown = size > 0
    outermost = owners.inside.rows[owners.outermost]

    def of_name(row: Rows, values: Ints | Mask) -> Ints:
        return np.bincount(host.name[row], values, minlength=len(texts)).astype(np.int64)

    def total(values: Ints | Mask) -> Ints:
        own = np.bincount(innermost, values, minlength=len(host)).astype(np.int64)
        return of_name(outermost, owners.inside.sums(own)[owners.outermost])

    used = np.flatnonzero(total(np.ones(len(size), np.int64)))
    gains = np.where(grown, size, 0)
    columns = (  # in the order of the row's fields
        calls,
        total(size),
        of_name(innermost, size),
        total(grown),
        of_name(innermost, grown),
        total(gains),
        of_name(innermost, gains),
    )
    numbers = (column[used].tolist() for column in columns)
    table = [_row(*row) for row in zip((texts[index] for index in used), *numbers, strict=True)]
    return sorted(table, key=lambda row: (-row.allocated, -row.self_allocated, row.operator))


def _row(*values: Any) -> MemoryRow:
    """A row of values in the order of its fields."""
    return MemoryRow(**dict(zip(MemoryRow.__struct_fields__, values, strict=True)))


def _places(view: View, rows: Ints) -> list[MemoryRow]:
    """Allocations by line of code. No file tells which line freed: the increase is what is still there."""
    events, texts = view.trace.memory, view.trace.texts
    grown, blocks = rows[events.bytes[rows] > 0], _blocks(events, rows)
    kept = blocks.alloc[(blocks.alloc >= 0) & ~blocks.freed]
    length = len(texts) + 1  # the last is of no place
    place, size = events.place, events.bytes
    calls, taken = (_sums(place[grown], values, length) for values in (None, size[grown]))
    left = _sums(place[kept], size[kept], length)
    sums, names = (column.tolist() for column in (calls, left, taken)), [*texts, OUTSIDE]
    return sorted(
        (
            _row(names[index], number, kept, kept, number, number, size, size)
            for index, (number, kept, size) in enumerate(zip(*sums, strict=True))
            if number
        ),
        key=lambda row: (-row.allocated, row.operator),
    )


def _sums(index: Rows, values: Ints | None, length: int) -> Ints:
    """Sums, or counts without values, by an index whose NONE is the last."""
    return np.bincount(np.where(index >= 0, index, length - 1), values, minlength=length).astype(np.int64)


class _Blocks(NamedTuple):
    """Blocks of one device, rows of MemoryEvents: one an allocation with its free, or one of both alone."""

    alloc: Ints  # NONE when it was allocated before the trace began
    gone: Ints  # the event after which it is not there any more; past the last event when it stays
    freed: Mask  # its free was seen


def _blocks(events: MemoryEvents, rows: Ints) -> _Blocks:
    """Allocations paired with frees of the same address, in time order."""
    rows = rows[events.address[rows] != _NO_ADDRESS]
    order = np.argsort(events.address[rows], kind="stable")
    rows = rows[order]
    address, grows = events.address[rows], events.bytes[rows] > 0
    follows = np.append(address[1:] == address[:-1], False) if len(rows) else np.empty(0, bool)
    after = np.append(rows[1:], 0)[: len(rows)]
    next_frees = follows & ~np.append(grows[1:], True)[: len(rows)]
    alloc = rows[grows]
    # An address that is given out again without a free was freed unseen, at the latest by then.
    gone = np.where(follows, after, len(events))[grows]
    after_alloc = np.append(False, follows[:-1] & grows[:-1])[: len(rows)]
    orphans = rows[~grows & ~after_alloc]
    return _Blocks(
        np.concatenate([alloc, np.full(len(orphans), NONE)]),
        np.concatenate([gone, orphans]),
        np.concatenate([next_frees[grows], np.ones(len(orphans), bool)]),
    )


def _live(view: View, owners: _Owners, blocks: _Blocks, peak: int) -> tuple[list[LiveAtPeak], int | None]:
    """Blocks alive after event `peak` by operator, and the bytes that were there before the trace."""
    events, host, texts = view.trace.memory, view.trace.host, view.trace.texts
    alive = _alive(blocks, peak)
    if not len(blocks.alloc):
        return [], None
    sums: dict[str, list[int]] = {}
    named = [of_host(host.name, rows[alive]) for rows in (owners.innermost, owners.around)]
    if bool((events.place >= 0).any()):
        named[0] = np.where(events.place[alive] >= 0, events.place[alive], events.holder[alive])
    groups = group(*named)
    columns = (*groups.codes, groups.sums(events.bytes[alive]), groups.sizes())
    for name, around, size, number in zip(*(column.tolist() for column in columns), strict=True):
        label = texts[name] if name >= 0 else OUTSIDE
        if label.startswith("aten::empty") and around >= 0:
            label = f"{texts[around]} ({label})"
        entry = sums.setdefault(label, [0, 0])
        entry[0] += int(size)
        entry[1] += number
    live = [LiveAtPeak(operator=label, bytes=size, blocks=number) for label, (size, number) in sums.items()]
    live_bytes = int(events.bytes[alive].sum())
    return sorted(live, key=lambda each: (-each.bytes, each.operator)), max(
        int(events.allocated[peak]) - live_bytes, 0
    )


def _alive(blocks: _Blocks, peak: int) -> Ints:
    """Allocations of the blocks that are there after event `peak`."""
    return blocks.alloc[(blocks.alloc >= 0) & (blocks.alloc <= peak) & (blocks.gone > peak)]


def _holders(view: View, blocks: _Blocks, peak: int, unknown: int) -> list[tuple[str, int]]:
    """Bytes at event `peak` by what holds them; those that were freed later and never allocated are older."""
    events, texts = view.trace.memory, view.trace.texts
    alive = _alive(blocks, peak)
    if not (events.holder >= 0).any():
        return []
    sums = Counter[str]({OLDER: unknown} if unknown else {})
    for name, size in zip(events.holder[alive].tolist(), events.bytes[alive].tolist(), strict=True):
        sums[texts[name]] += size
    return sums.most_common()


def _kinds(view: View, blocks: _Blocks, shown: Ints, peak: int) -> list[tuple[str, list[int]]]:
    """Bytes by kind after each of the shown events; kinds of less than `FEW` of the peak are "other"."""
    events, made = view.trace.memory, blocks.alloc >= 0
    alloc, gone, seen_only = blocks.alloc[made], blocks.gone[made], blocks.gone[~made]
    number = len(events) + 1
    # What holds the block, as a snapshot tells, else the phase in which it lies.
    if (events.holder >= 0).any():
        kinds = np.array([*view.trace.texts, "other"], object)[events.holder]
    else:
        kinds = np.full(len(events), "other", object)
        for name, ranges in phases.claims(view).items():
            kinds[intervals.within(ranges, events.at, events.at + 1) == 1] = name
        kinds = kinds
    totals = dict[str, Ints]()
    for name in dict.fromkeys(kinds[alloc].tolist()):
        own = kinds[alloc] == name
        size = events.bytes[alloc[own]]
        change = np.bincount(alloc[own], size, number) - np.bincount(gone[own], size, number)
        totals[name] = np.cumsum(change)[shown].astype(np.int64)
    left = np.cumsum(np.bincount(seen_only, events.bytes[seen_only], number))[shown].astype(np.int64)
    left -= int(events.bytes[seen_only].sum())
    known = np.sum([*totals.values(), left], axis=0)
    totals[OLDER] = totals.get(OLDER, 0) + left + np.maximum(events.allocated[shown] - known, 0)
    at = int(np.searchsorted(shown, peak))
    few = [
        name for name, each in totals.items() if name != "other" and each.max() < FEW * events.allocated[peak]
    ]
    for name in few:
        totals["other"] = totals.get("other", 0) + totals.pop(name)
    ordered = sorted(totals.items(), key=lambda each: (-int(each[1][min(at, len(shown) - 1)]), each[0]))
    return [(name, each.tolist()) for name, each in ordered if each.any()]


def _thin_out(events: MemoryEvents, rows: Ints) -> Ints:
    """Rows that a curve shows: all of them, or every peak and valley of `BUCKETS` equal spans."""
    if len(rows) > 4 * BUCKETS:
        at, total = events.at[rows], events.allocated[rows]
        span = int(at[-1] - at[0]) + 1
        bucket = (at - at[0]) * BUCKETS // span
        order = np.lexsort((total, bucket))
        edges = np.append(True, bucket[1:] != bucket[:-1])
        closes = np.append(edges[1:], True)
        rows = rows[np.unique(np.concatenate([np.flatnonzero(edges | closes), order[edges], order[closes]]))]
    return rows
