"""The drawing of a page: one step event by event, and the tree of all calls in the steps.

Calls of one name below the same callers are one node: Python, ranges, operators, what they launched. Own
times of a thread's nodes sum to what its ranges cover, those of the device to its activities. Ranges are cut
to the steps and to what they lie in; `ProfilerStep#N` is left out, or steps would stand side by side."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laptime.records.overview import CAUSES
from laptime.records.profile import CallTree
from laptime.records.tables import Lane, Timeline
from laptime.trace import intervals, names, phases, stacks
from laptime.trace.columns import (
    NONE,
    DeviceKind,
    Host,
    HostKind,
    Index,
    Ints,
    Kinds,
    Mask,
    Rows,
    Thread,
    Trace,
)
from laptime.trace.intervals import group
from laptime.trace.tables.idle import Part
from laptime.trace.tables.memory import DEVICES
from laptime.trace.view import Steps, View

RANGES = 12_000
ARROWS = 6_000
GAPS = 2_000  # as many ranges, arrows and gaps as a page can draw and carry
_KINDS = ("operator", "annotation", "runtime", "python", "module", "kernel", "communication", "memcpy")
CATEGORIES = [*_KINDS, "memset", "data", "thread", *(f"idle-{cause}" for cause in CAUSES)]
OF_HOST = {kind: kind.name.lower() for kind in HostKind if kind < HostKind.OVERHEAD} | {
    HostKind.DRIVER: "runtime"
}
OF_DEVICE = {kind: kind.name.lower() for kind in DeviceKind}


class _Chosen(NamedTuple):
    """Rows to be drawn, ascending, and how many were left out."""

    host: Ints
    device: Ints
    dropped: int


def timeline(
    view: View, idle: Sequence[Part] = (), *, ranges: int = RANGES, arrows: int = ARROWS
) -> Timeline | None:
    """The step nearest the median, cut at its ends; None when nothing happened in it.

    Too many ranges: Python functions go first, then the shortest of all. Parts of `idle` gaps are lanes, too.
    """
    step = typical(view.steps)
    start, end = int(view.steps.start[step]), int(view.steps.end[step])
    host, device = view.trace.host, view.trace.device
    inside = np.flatnonzero((host.start < end) & (host.end > start) & np.isin(host.kind, list(OF_HOST)))
    python = host.kind[inside] == HostKind.PYTHON
    work = np.flatnonzero((device.start < end) & (device.end > start))
    calls, frames = inside[~python], inside[python]
    spent = np.concatenate([(host.end - host.start)[calls], (device.end - device.start)[work]])
    kept = _longest(spent, ranges)
    frames_kept = _longest((host.end - host.start)[frames], max(ranges - len(spent), 0))
    drawn = np.sort(np.concatenate([calls[kept[: len(calls)]], frames[frames_kept]]))
    chosen = _Chosen(drawn, work[kept[len(calls) :]], int((~kept).sum() + (~frames_kept).sum()))
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
    texts = [view.trace.texts[index] if index >= 0 else "" for index in used.tolist()]
    gaps = _idle_lanes(idle, device_type(view.trace), start, end, len(texts))
    # From launches to what they launched, both drawn; the longest work first when there are too many.
    place = np.full(len(host), NONE, np.int64)
    place[chosen.host] = np.arange(len(chosen.host))
    launch = view.links.launch[chosen.device]
    source = np.where(launch >= 0, place[launch] if len(place) else NONE, NONE)
    spent = (device.end - device.start)[chosen.device]
    rows = np.flatnonzero(source >= 0)
    rows = rows[_longest(spent[rows], arrows)]
    return Timeline(
        step=int(view.steps.number[step]),
        dur_ns=end - start,
        names=[*texts, *(CAUSES.values() if gaps else ())],
        categories=CATEGORIES,
        lanes=host_lanes + device_lanes + gaps,
        arrows=[
            (a, b, c, d)
            for (a, b), (c, d) in zip(host_at[source[rows]].tolist(), device_at[rows].tolist(), strict=True)
        ],
        dropped=chosen.dropped,
    )


def typical(steps: Steps) -> int:
    """Index of the step nearest the median duration, the first one left out if there are others."""
    spent = steps.end - steps.start
    skip = 1 if len(spent) > 1 else 0
    return skip + int(np.argmin(np.abs(spent[skip:] - np.median(spent[skip:]))))


def device_type(trace: Trace) -> str:
    """Return the type of a trace's accelerators: cuda, hip, mtia, xpu ...; cpu if none did any work.

    As the categories or the memory events say, else by the names of the calls that launch."""
    kinds = intervals.distinct(trace.memory.device_type[trace.memory.device_type > 0])
    if not len(trace.device) and (len(trace.host) or not len(kinds)):
        return "cpu"
    if trace.api:
        return trace.api
    if len(kinds) == 1 and int(kinds[0]) in DEVICES:
        return DEVICES[int(kinds[0])]
    called = intervals.distinct(trace.host.name[trace.host.is_call])
    calls = [trace.texts[name] for name in called if name >= 0]
    for prefix, kind in (("hip", "hip"), ("cu", "cuda"), ("mtia", "mtia"), ("ze", "xpu"), ("ur", "xpu")):
        if any(call.startswith(prefix) for call in calls):
            return kind
    return "cuda"


def _longest(spent: Ints, number: int) -> Mask:
    """The longest `number` of them."""
    longest = np.ones(len(spent), bool)
    if len(spent) > number:
        longest[np.argsort(-spent, kind="stable")[number:]] = False
    return longest


def _host_lanes(view: View, rows: Ints, name: Ints, start: int, end: int) -> tuple[list[Lane], Index]:
    host = view.trace.host
    drawn = np.zeros(len(host), bool)
    drawn[rows] = True
    depth = intervals.build(host, drawn).depth[rows]
    category = host_categories(view.trace, host.name[rows], host.kind[rows])
    thread = host.thread[rows]
    titles = [(index, title(view.trace.threads[index])) for index in _main_first(view, thread)]
    columns = (host.start[rows], host.end[rows], name, depth, category)
    return _lanes("host", titles, thread, columns, start, end)


def _device_lanes(view: View, rows: Ints, name: Ints, start: int, end: int) -> tuple[list[Lane], Index]:
    device, category = view.trace.device, device_categories(view.trace, rows)
    streams, lane = np.unique(
        np.stack([device.device[rows].astype(np.int64), device.stream[rows]]), axis=1, return_inverse=True
    )
    kind = device_type(view.trace)
    titles = [
        (at, f"{kind}:{number} stream {stream}") for at, (number, stream) in enumerate(streams.T.tolist())
    ]
    columns = (device.start[rows], device.end[rows], name, np.zeros(len(rows), np.int32), category)
    return _lanes("device", titles, lane.ravel().astype(np.int32), columns, start, end)


def title(thread: Thread) -> str:
    """Return the title of a thread."""
    return thread.name if thread.tid in thread.name else f"thread {thread.tid} {thread.name}".rstrip()


def host_categories(trace: Trace, name: Index, kind: Kinds) -> Index:
    """Indices into CATEGORIES of ranges on the host."""
    category = _categories(kind, OF_HOST)
    for word, family in (
        ("module", names.matching(f"^{stacks.MODULE}")),
        ("data", names.is_dataloader),
        ("communication", names.is_host_collective),
    ):
        category[names.rows(trace.texts, name, family)] = CATEGORIES.index(word)
    return category


def device_categories(trace: Trace, rows: Ints) -> Index:
    """Indices into CATEGORIES of activities of a device."""
    kind = trace.device.kind[rows]
    category = _categories(kind, OF_DEVICE)
    talks = names.rows(trace.texts, trace.device.name[rows], names.is_communication)
    category[talks & (kind == DeviceKind.KERNEL)] = CATEGORIES.index("communication")
    return category


def _idle_lanes(parts: Sequence[Part], kind: str, start: int, end: int, first: int) -> list[Lane]:
    """Return why each device was idle, the longest gaps; names of causes begin at number `first`."""
    causes, lanes = list(CAUSES), list[Lane]()
    for device in dict.fromkeys(of for of, _, _ in parts):
        cut = [
            (causes.index(cause), intervals.clip(gaps, start, end))
            for of, cause, gaps in parts
            if of == device
        ]
        cause = np.repeat([at for at, _ in cut], [len(gaps.start) for _, gaps in cut])
        begin, stop = (np.concatenate([gaps[side] for _, gaps in cut]) for side in (0, 1))
        kept = np.flatnonzero(_longest(stop - begin, GAPS))
        rows = kept[np.argsort(begin[kept], kind="stable")]
        columns = (begin, stop, first + cause, 0 * cause, CATEGORIES.index(f"idle-{causes[0]}") + cause)
        titles, lane = [(0, f"{kind}:{device} idle")], np.zeros(len(rows), np.int32)
        lanes += _lanes("idle", titles, lane, [column[rows] for column in columns], start, end)[0]
    return [lane for lane in lanes if lane.start_ns]


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
    kind: str, titles: list[tuple[int, str]], lane: Index, columns: Sequence[Rows], start: int, end: int
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


NODES = 4000  # nodes that are kept: those with the largest share of the time of the host or of the device
UNLAUNCHED = "launched outside of the steps"


def calls(view: View, most: int = NODES) -> CallTree | None:
    """All threads and devices; None without any range on the host in the steps."""
    trace, (host, place) = view.trace, _by_caller(view)
    begin, end = int(view.steps.host_start[0]), int(view.steps.host_end[-1])
    take = np.isin(host.kind, list(OF_HOST)) & (host.start < end) & (host.end > begin)
    take &= ~names.rows(trace.texts, host.name, names.is_step)
    if not take.any():
        return None
    nodes = _Nodes([*trace.texts, *map(title, trace.threads), UNLAUNCHED])
    # Per host row an index into texts: Python functions that differ by an address alone have one.
    label, first = np.arange(len(nodes.texts) + 1, dtype=np.int32), dict[str, int]()
    for index, text in stacks.frames_of(view).texts.items():
        label[index], nodes.texts[index] = first.setdefault(text, index), text
    label, roots = label[host.name], nodes.add(NONE, len(trace.texts))
    tree, start, stop = intervals.build(host, take), np.maximum(host.start, begin), np.minimum(host.end, end)
    node = np.full(len(host) + 1, roots[-1], np.int32)  # the last one is NONE: of what nothing launched
    for rows in intervals.levels(tree):
        above, inner = tree.parent[rows], tree.parent[rows] >= 0
        stop[rows[inner]] = np.minimum(stop[rows], stop[above])[inner]
        node[rows] = nodes.add(np.where(inner, node[above], roots[host.thread[rows]]), label[rows])
    used, spent = tree.rows, np.maximum(stop - start, 0)
    inside = used[tree.parent[used] >= 0]
    own = spent - np.bincount(tree.parent[inside], spent[inside], len(host)).astype(np.int64)
    kind = host_categories(trace, host.name[used], host.kind[used])
    nodes.count(node[used], kind, start[used], own[used], 0)
    device, (begin, end) = trace.device, view.window
    work = np.flatnonzero((device.start < end) & (device.end > begin))
    start, stop = np.maximum(device.start[work], begin), np.minimum(device.end[work], end)
    below = nodes.add(np.append(node[place], node[-1])[view.links.launch[work]], device.name[work])
    nodes.count(below, device_categories(trace, work), start, 0, stop - start)
    return nodes.tree(roots[phases.loop_thread(view)], most)


def _by_caller(view: View) -> tuple[Host, Index]:
    """The host's rows with each Python function on the thread that it belongs to, and where rows are now."""
    host, home = view.trace.host, stacks.frames_of(view).home
    owner = np.arange(len(home), dtype=np.int32)
    owner[home[home != owner]] = owner[home != owner]
    moved = np.where(host.kind == HostKind.PYTHON, owner[host.thread], host.thread)
    if (moved == host.thread).all():
        return host, np.arange(len(host), dtype=np.int32)
    order = np.lexsort((-host.end, host.start, moved))
    columns = {name: column[order] for name, column in {**vars(host), "thread": moved}.items()}
    return Host(**columns), np.argsort(order).astype(np.int32)


class _Nodes:
    """A growing tree: parents have lower numbers than their children."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self._nodes, self._number = list[tuple[Ints, ...]](), 0
        self._begun, self._kind = np.empty(0, np.int64), np.empty(0, np.int64)
        self._own = np.empty((3, 0))

    def add(self, parent: Index | int, label: Index | int) -> Index:
        """Per row a new node, the same for equal parents and labels; all texts from one on are roots."""
        if isinstance(label, int):
            label = np.arange(label, len(self.texts), dtype=np.int32)
        groups, before = group(*np.broadcast_arrays(parent, label)), self._number
        self._nodes.append(groups.codes)
        self._number += len(groups)
        return (before + groups.of).astype(np.int32)

    def count(
        self, node: Index, category: Index, start: Ints, host_ns: Ints | int, device_ns: Ints | int
    ) -> None:
        """Calls, with what they are, when they began, and their own times; summed here, they are many."""
        new = self._number - len(self._begun)
        self._begun = np.append(self._begun, np.full(new, np.iinfo(np.int64).max))
        self._kind = np.append(self._kind, np.full(new, CATEGORIES.index("thread")))
        np.minimum.at(self._begun, node, start)
        self._kind[node] = category
        sums = [np.bincount(node, np.broadcast_to(ns, node.shape)) for ns in (1, host_ns, device_ns)]
        self._own = np.pad(self._own, ((0, 0), (0, new)))
        self._own[:, : len(sums[0])] += sums

    def tree(self, first: int, most: int) -> CallTree:
        """Depth first, callees by their first call; what is too little to be kept counts for its caller."""
        parent, label = (np.concatenate(side) for side in zip(*self._nodes, strict=True))
        number, above, own = self._number, parent.tolist(), [*self._own]
        both = [ns.tolist() for ns in own[1:]]
        for total, at in itertools.product(both, range(number - 1, -1, -1)):
            if above[at] >= 0:
                total[above[at]] += total[at]
        share = np.maximum(
            *(np.array(total) / max(1, sum(ns)) for total, ns in zip(both, own[1:], strict=True))
        )
        kept = np.zeros(number, bool)
        kept[np.lexsort((np.arange(number), -share))[:most]] = True
        kept &= share > 0
        into = np.arange(number)
        for at in np.flatnonzero(~kept).tolist():  # parents first
            into[at] = into[parent[at]] if parent[at] >= 0 else first
        key = np.where(parent < 0, -share - 2 * (np.arange(number) == first), 0.0)
        below: dict[int, list[int]] = {}
        for at in np.lexsort((self._begun, key)).tolist()[::-1]:
            if kept[at]:
                below.setdefault(above[at], []).append(at)
        order, todo = list[int](), below.get(NONE, [])
        while todo:
            order.append(todo.pop())
            todo += below.get(order[-1], [])
        place = {at: index for index, at in enumerate([NONE, *order], NONE)}
        used = {text: index for index, text in enumerate(dict.fromkeys(label[order].tolist()))}
        sums = (np.bincount(into, ns, number)[order].astype(np.int64).tolist() for ns in own)
        calls, host_ns, device_ns = sums
        return CallTree(
            names=[self.texts[text] for text in used],
            categories=CATEGORIES,
            parent=[place[above[at]] for at in order],
            name_index=[used[text] for text in label[order].tolist()],
            category=self._kind[order].tolist(),
            calls=calls,
            host_ns=host_ns,
            device_ns=device_ns,
            left_out=int((share > 0).sum()) - len(order),
        )
