"""One step, event by event, to be drawn: all threads and streams, nesting, launches as arrows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.records.tables import Lane, Timeline
from laptime.trace import intervals, names
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index, Ints, Kinds, Mask, Trace
from laptime.trace.tables.memory import DEVICES
from laptime.trace.view import Steps, View

RANGES = 12_000
ARROWS = 6_000
"""As many ranges and arrows as a page can draw and carry."""

CATEGORIES = [
    "operator", "annotation", "runtime", "python", "kernel", "communication", "memcpy", "memset", "data",
]  # fmt: skip
_OF_HOST = {
    HostKind.OPERATOR: "operator", HostKind.ANNOTATION: "annotation", HostKind.RUNTIME: "runtime",
    HostKind.DRIVER: "runtime", HostKind.PYTHON: "python",
}  # fmt: skip
_OF_DEVICE = {DeviceKind.KERNEL: "kernel", DeviceKind.MEMCPY: "memcpy", DeviceKind.MEMSET: "memset"}


class _Chosen(NamedTuple):
    """Rows to be drawn, ascending, and how many were left out."""

    host: Ints
    device: Ints
    dropped: int


def timeline(view: View, *, ranges: int = RANGES, arrows: int = ARROWS) -> Timeline | None:
    """The step nearest the median, cut at its ends; None when nothing happened in it.

    Too many ranges: Python functions go first, then the shortest of all.
    """
    step = typical(view.steps)
    start, end = int(view.steps.start[step]), int(view.steps.end[step])
    chosen = _choose(view, start, end, ranges)
    if not len(chosen.host) and not len(chosen.device):
        return None
    used, name = np.unique(
        np.concatenate([view.trace.host.name[chosen.host], view.trace.device.name[chosen.device]]),
        return_inverse=True,
    )
    host_names, device_names = np.split(name, [len(chosen.host)])
    host_lanes, host_at = _host_lanes(view, chosen.host, host_names, start, end)
    device_lanes, device_at = _device_lanes(view, chosen.device, device_names, start, end)
    device_at[:, 0] += len(host_lanes)
    return Timeline(
        step=int(view.steps.number[step]),
        dur_ns=end - start,
        names=[view.trace.texts[index] if index >= 0 else "" for index in used.tolist()],
        categories=CATEGORIES,
        lanes=host_lanes + device_lanes,
        arrows=_arrows(view, chosen, host_at, device_at, arrows),
        dropped=chosen.dropped,
    )


def typical(steps: Steps) -> int:
    """Index of the step nearest the median duration, the first one left out where there are others."""
    spent = steps.end - steps.start
    skip = 1 if len(spent) > 1 else 0
    return skip + int(np.argmin(np.abs(spent[skip:] - np.median(spent[skip:]))))


def device_type(trace: Trace) -> str:
    """What the accelerators of a trace are: cuda, hip, mtia, xpu ...; cpu when none did any work.

    As the categories or the memory events say, else by the names of the calls that launch.
    """
    kinds = np.unique(trace.memory.device_type[trace.memory.device_type > 0])
    if not len(trace.device) and (len(trace.host) or not len(kinds)):
        return "cpu"
    if trace.api:
        return trace.api
    if len(kinds) == 1 and int(kinds[0]) in DEVICES:
        return DEVICES[int(kinds[0])]
    launches = np.unique(trace.host.name[np.isin(trace.host.kind, (HostKind.RUNTIME, HostKind.DRIVER))])
    calls = [trace.texts[name] for name in launches if name >= 0]
    for prefix, kind in (("hip", "hip"), ("cu", "cuda"), ("mtia", "mtia"), ("ze", "xpu"), ("ur", "xpu")):
        if any(call.startswith(prefix) for call in calls):
            return kind
    return "cuda"


def _choose(view: View, start: int, end: int, budget: int) -> _Chosen:
    host, device = view.trace.host, view.trace.device
    inside = np.flatnonzero((host.start < end) & (host.end > start) & np.isin(host.kind, list(_OF_HOST)))
    python = host.kind[inside] == HostKind.PYTHON
    work = np.flatnonzero((device.start < end) & (device.end > start))
    calls, frames = inside[~python], inside[python]
    spent = np.concatenate([(host.end - host.start)[calls], (device.end - device.start)[work]])
    chosen = _longest(spent, budget)
    room = max(budget - len(spent), 0)
    frames_kept = _longest((host.end - host.start)[frames], room)
    drawn = np.sort(np.concatenate([calls[chosen[: len(calls)]], frames[frames_kept]]))
    dropped = int((~chosen).sum() + (~frames_kept).sum())
    return _Chosen(drawn, work[chosen[len(calls) :]], dropped)


def _longest(spent: Ints, number: int) -> Mask:
    """The longest `number` of them."""
    longest = np.ones(len(spent), bool)
    if len(spent) > number:
        longest[np.argsort(-spent, kind="stable")[number:]] = False
    return longest


def _host_lanes(view: View, rows: Ints, name: Ints, start: int, end: int) -> tuple[list[Lane], Index]:
    host, texts = view.trace.host, view.trace.texts
    drawn = np.zeros(len(host), bool)
    drawn[rows] = True
    depth = intervals.build(host, drawn).depth[rows]
    category = _categories(host.kind[rows], _OF_HOST)
    category[names.rows(texts, host.name[rows], names.is_dataloader)] = CATEGORIES.index("data")
    category[names.rows(texts, host.name[rows], names.is_host_collective)] = CATEGORIES.index("communication")
    thread = host.thread[rows]
    titles = []
    for index in _main_first(view, thread):
        tid, title = view.trace.threads[index].tid, view.trace.threads[index].name
        titles.append((index, title if tid in title else f"thread {tid} {title}".rstrip()))
    columns = (host.start[rows], host.end[rows], name, depth, category)
    return _lanes("host", titles, thread, columns, start, end)


def _device_lanes(view: View, rows: Ints, name: Ints, start: int, end: int) -> tuple[list[Lane], Index]:
    device, texts = view.trace.device, view.trace.texts
    category = _categories(device.kind[rows], _OF_DEVICE)
    talks = names.rows(texts, device.name[rows], names.is_communication)
    category[talks & (device.kind[rows] == DeviceKind.KERNEL)] = CATEGORIES.index("communication")
    streams, lane = np.unique(
        np.stack([device.device[rows].astype(np.int64), device.stream[rows]]), axis=1, return_inverse=True
    )
    kind = device_type(view.trace)
    titles = [
        (at, f"{kind}:{number} stream {stream}") for at, (number, stream) in enumerate(streams.T.tolist())
    ]
    columns = (device.start[rows], device.end[rows], name, np.zeros(len(rows), np.int32), category)
    return _lanes("device", titles, lane.ravel().astype(np.int32), columns, start, end)


def _categories(kinds: Kinds, words: dict[HostKind, str] | dict[DeviceKind, str]) -> Index:
    table = np.zeros(max(words) + 1, np.int32)
    for kind, word in words.items():
        table[kind] = CATEGORIES.index(word)
    return table[kinds]


def _main_first(view: View, thread: Index) -> list[int]:
    """Threads with ranges: first the one that runs the loop, then those with most ranges."""
    number = np.bincount(thread, minlength=len(view.trace.threads))
    steps = np.flatnonzero(names.rows(view.trace.texts, view.trace.host.name, names.is_step))
    main = set(view.trace.host.thread[steps].tolist())
    used = np.flatnonzero(number).tolist()
    return sorted(used, key=lambda each: (each not in main, -number[each], each))


def _lanes(
    kind: str,
    titles: list[tuple[int, str]],
    lane: Index,
    columns: tuple[Ints, Ints, Ints, Index, Index],
    start: int,
    end: int,
) -> tuple[list[Lane], Index]:
    """The lanes, and the place of each row: (lane, row in it)."""
    place = np.zeros((len(lane), 2), np.int32)
    lanes = []
    for number, (key, title) in enumerate(titles):
        rows = np.flatnonzero(lane == key)
        place[rows, 0], place[rows, 1] = number, np.arange(len(rows))
        begin, stop, name, depth, category = (column[rows] for column in columns)
        begin, stop = np.maximum(begin, start), np.minimum(stop, end)
        lanes.append(
            Lane(
                kind=kind,
                name=title,
                start_ns=(begin - start).tolist(),
                dur_ns=(stop - begin).tolist(),
                name_index=name.tolist(),
                depth=depth.tolist(),
                category=category.tolist(),
            )
        )
    return lanes, place


def _arrows(
    view: View, chosen: _Chosen, host_at: Index, device_at: Index, budget: int
) -> list[tuple[int, int, int, int]]:
    """From launches to what they launched, both drawn; the longest work first when there are too many."""
    place = np.full(len(view.trace.host), NONE, np.int64)
    place[chosen.host] = np.arange(len(chosen.host))
    launch = view.links.launch[chosen.device]
    source = np.where(launch >= 0, place[launch] if len(place) else NONE, NONE)
    spent = (view.trace.device.end - view.trace.device.start)[chosen.device]
    rows = np.flatnonzero(source >= 0)
    rows = rows[_longest(spent[rows], budget)]
    return [
        (a, b, c, d)
        for (a, b), (c, d) in zip(host_at[source[rows]].tolist(), device_at[rows].tolist(), strict=True)
    ]
