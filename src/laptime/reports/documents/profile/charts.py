"""Drawings of a profile: charts of steps, of the device and its memory, and what adds up as bars; what the
page's script draws: a step event by event, all calls of the steps; the longest gaps."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from msgspec import structs

from laptime.kit.text import count
from laptime.kit.units import scale, show
from laptime.records.overview import CAUSES, Breakdown, RankRow, Step
from laptime.records.profile import CallTree, Profile
from laptime.records.tables import Lane, Memory, Timeline
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.document import Bar, Bars, Detail
from laptime.reports.documents.profile import facts, words
from laptime.reports.fields import Field, table
from laptime.reports.page.plot import Axis, Column, Level, Line, Mark, Note, Plot, Spot, Style, borders
from laptime.reports.page.svg import Labels, Scale

STEPS = 60  # steps drawn; of more, evenly spaced ones
_LABELS = 16
_SUMMIT = Style("disc", "summit")
RANKS = 64  # ranks with a bar
_LEAST = 0.001
_LEAST_CAUSE = 0.005  # shares of the step below which a part, or a cause of idle time, is not on a terminal
_NAME = 300  # characters of a name: some kernels have names as long as this page
_GAPS = 8
_WORDS = {
    "operator": "operators",
    "annotation": "named ranges",
    "runtime": "runtime calls",
    "python": "Python",
    "module": "modules",
    "kernel": "kernels",
    "communication": "communication",
    "memcpy": "copies",
    "memset": "memory set",
    "data": "loading data",
    "thread": "threads",
    **{f"idle-{cause}": f"idle: {text}" for cause, text in CAUSES.items()},
}
"""What people read for each category."""


def steps(steps: Sequence[Step]) -> Plot:
    """A bar for each step, its parts from the bottom up."""
    drawn = steps[:: -(-len(steps) // STEPS)]
    longest = (max((step.breakdown.total_ns for step in drawn), default=1) or 1) / 1e9
    every = max(1, -(-len(drawn) // _LABELS))
    numbers = [(float(at), str(drawn[at].number)) for at in range(0, len(drawn), every)]
    return Plot(
        label="parts of each step",
        x=Axis(-0.5, len(drawn) - 0.5, "step", write=lambda *_: numbers),
        y=Axis(0.0, longest, unit=scale(longest, "s")),
        marks=[bar for index, step in enumerate(drawn) for bar in _stack(step, index)],
        margins={"left": 48, "right": 8, "top": 24},
    )


def _stack(step: Step, at: int) -> Iterator[Column]:
    low, whole = 0, step.breakdown.total_ns
    for part, name in words.PARTS.items():
        if ns := getattr(step.breakdown, f"{part}_ns"):
            text = f"step {step.number}: {name}: {words.time(ns)} ({words.share(ns, whole)})"
            yield Column(at, low / 1e9, (low + ns) / 1e9, f"fill p-{part}", text)
            low += ns


def use(values: Sequence[float], steps: Sequence[Step], *, label: str, top: float = 1.0) -> Plot:
    """A curve in equal buckets over the window of all steps, with their borders; up to 1 it is in percent."""
    start, end = (steps[0].start_ns, steps[-1].end_ns) if steps else (0, 1)
    seconds = (end - start) / 1e9
    edges = [seconds * at / max(1, len(values)) for at in range(len(values) + 1)]
    # The height of a bucket begins at its left edge: the curve comes up from zero, and goes down to it.
    curve = Line([(0.0, 0.0), *zip(edges, [*values, 0.0], strict=True)], "area", steps=True, area=True)
    percents = lambda y, about: [(at, f"{100 * at:.0f} %") for at in y.ticks(about)]  # noqa: E731
    return Plot(
        label=label,
        x=_over_time(0.0, seconds),
        y=Axis(0.0, top or 1.0, about=3, write=percents if top == 1.0 else None),
        marks=[curve, *borders([(step.start_ns - start) / 1e9 for step in steps[1:]])],
        height=150,
        margins={"left": 48, "right": 10, "top": 12, "bottom": 28},
    )


def _over_time(low: float, high: float) -> Axis:
    """Seconds, whose unit stands with the first."""
    factor, unit = scale(high, "s")

    def write(x: Scale, about: int) -> Labels:
        (at, first), *others = x.labels(about, factor)
        return [(at, f"{first} {unit}"), *others]

    return Axis(low, high, write=write)


def memory(memory: Memory) -> Plot:
    """Allocated bytes by kind, reserved ones as a line, the peak marked, the capacity if it is near."""
    points = memory.curve
    top = max(1, *(max(point.allocated, point.reserved) for point in points))
    capacity = memory.capacity if memory.capacity is not None and memory.capacity < 2 * top else 0
    limit = float(max(top, capacity))
    factor, unit = scale(limit, "B")
    sizes = lambda y, about: [(at, f"{text} {unit}") for at, text in y.labels(about, factor)]  # noqa: E731
    x = _over_time(points[0].at_ns / 1e9, max(points[-1].at_ns, points[0].at_ns + 1) / 1e9)
    allocated = [(point.at_ns / 1e9, point.allocated) for point in points]
    reserved = [(point.at_ns / 1e9, point.reserved) for point in points if point.reserved >= 0]
    marks: list[Mark] = [*_bands(memory)] or [Line(allocated, "area", steps=True, area=True)]
    marks += [Line(reserved, "reserved", steps=True)] if reserved else []
    if capacity:
        text = f"capacity {show(capacity, 'B')}"
        marks += [Level(capacity, "limit"), Note(x.low, capacity, text, by=(6, 14))]
    if memory.peak is not None and memory.peak_at_ns is not None:
        at, text = memory.peak_at_ns / 1e9, f"peak {show(memory.peak, 'B')}"
        side, by = ("value end", -9) if at > (x.low + x.high) / 2 else ("value", 9)
        marks += [Spot(at, memory.peak, _SUMMIT, text), Note(at, memory.peak, text, side, by=(by, -6))]
    return Plot(
        label=f"memory of {memory.device} over time",
        x=x,
        y=Axis(0.0, limit * 1.06, about=4, write=sizes),
        marks=marks,
        height=220,
        margins={"left": 66, "right": 10, "top": 14, "bottom": 28},
    )


def _bands(memory: Memory) -> list[Line]:
    """Each kind on those before it, the highest first, so that it lies behind them. A damaged file may have
    fewer sizes than points."""
    bands, below = list[Line](), [0] * len(memory.curve)
    for number, (name, sizes) in enumerate(memory.kinds):
        below = [low + size for low, size in zip(below, sizes, strict=False)]
        points = [(point.at_ns / 1e9, size) for point, size in zip(memory.curve, below, strict=False)]
        bands.append(Line(points, f"band c{number % 6}", name, steps=True, area=True))
    return bands[::-1]


def breakdown(profile: Profile) -> Bars:
    """The mean step in the parts of the TensorBoard plugin, in its order."""
    overview = profile.overview
    rows = _parts(overview.breakdown, overview.step_ns)
    rank = f", rank {profile.rank}" if profile.ranks and profile.rank is not None else ""
    note = facts.step(profile) + rank
    return Bars(title="step", note=note, rows=rows, whole=overview.step_ns / 1e9, stacked=True)


def _parts(breakdown: Breakdown, whole: float) -> list[Bar]:
    return [
        bar(part, name, ns, whole)
        for part, name in words.PARTS.items()
        if (ns := getattr(breakdown, f"{part}_ns")) > 0
    ]


def bar(kind: str, name: str, ns: float, whole: float, *, note: str = "", least: float = _LEAST) -> Bar:
    """Draw a duration, with its share of the whole; below `least` it is not on a terminal."""
    share = ns / whole if whole else 0.0
    return Bar(
        kind=kind,
        name=_words.printable(name),
        value=ns / 1e9,
        text=words.time(ns),
        share=share,
        note=note,
        detail="brief" if share >= least else "folded" if share >= _LEAST else "page",
    )


def idle(profile: Profile) -> Bars:
    """Return why the device was idle, per step, longest first; shares are of the step."""
    idle, steps = profile.overview.idle, max(profile.overview.steps, 1)
    if idle is None or not idle.total_ns:
        return Bars(rows=[])
    rows, whole = [], idle.window_ns / steps
    for cause in sorted(idle.causes, key=lambda cause: -cause.total_ns):
        operator, place = words.first_operator(cause.operators), words.place(cause.stack)
        note = f"{operator} ({place})" if operator and place else operator or place
        name, ns = words.CAUSES[cause.cause], cause.total_ns / steps
        if ns > 0:
            rows.append(bar(f"idle-{cause.cause}", name, ns, whole, note=note, least=_LEAST_CAUSE))
    return Bars(title="idle", note=facts.idle(profile), rows=rows, whole=whole / 1e9, stacked=True)


def phases(profile: Profile) -> Bars:
    """Phases of the loop on the host, each with what it launched on the device; none for a single phase."""
    overview, rows = profile.overview, list[Bar]()
    for phase in overview.phases if len(overview.phases) > 1 else ():
        rows.append(bar("on-host", phase.name, phase.host_ns, overview.step_ns))
        if phase.device_ns:
            device = bar("on-device", f"{phase.name} on the device", phase.device_ns, overview.step_ns)
            rows.append(structs.replace(device, name="", parts=[device]))
    detail: Detail = "page" if overview.devices else "brief"
    legend = [Bar(kind=f"on-{where}", name=where) for where in ("host", "device")] if overview.devices else []
    note, whole = "the loop in its phases", overview.step_ns / 1e9
    return Bars(title="host", note=note, rows=rows, whole=whole, legend=legend, detail=detail)


def draw_untraced(profile: Profile) -> Bars:
    """The step without the profiler, in its parts, beside the profiled one."""
    measured = profile.reconciled
    if measured is None:
        return Bars(rows=[])
    step_ns = measured.untraced_ns
    parts = [bar(f"phase-{name}", name, ns, step_ns) for name, ns in measured.parts_ns.items() if ns > 0]
    rows = [
        structs.replace(bar("other", "untraced", step_ns, step_ns), parts=parts),
        bar("other", "profiled", measured.traced_ns, step_ns),
    ]
    note = f"profiled steps take {measured.slowdown:.2f}x as long"
    return Bars(title="Without the profiler", note=note, rows=rows, legend=parts, detail="page")


def ranks(profile: Profile) -> Bars:
    """A bar for each rank, all on one scale, above the waiting and the transfer of its collectives."""
    rows = [bar for row in profile.ranks[:RANKS] for bar in _rank(row)]
    legend = {part.kind: Bar(kind=part.kind, name=part.name) for bar in rows for part in bar.parts}
    return Bars(rows=rows, legend=list(legend.values()), detail="page")


def _rank(row: RankRow) -> Iterable[Bar]:
    whole = bar("other", f"rank {row.rank}", row.step_ns, row.step_ns)
    yield structs.replace(whole, parts=_parts(row.breakdown, row.step_ns))
    if row.waiting_ns is None or row.transfer_ns is None or row.waiting_ns + row.transfer_ns <= 0:
        return
    steps = max(row.steps, 1)
    waiting = bar("waiting", "waiting in collectives", row.waiting_ns / steps, row.step_ns)
    transfer = bar("transfer", "transfer", row.transfer_ns / steps, row.step_ns)
    yield Bar(name="", value=waiting.value, text=f"{waiting.text} waiting", parts=[waiting, transfer])


def timeline(profile: Profile) -> doc.Section:
    """The step nearest the median with the causes of its gaps; the longest gaps as a table."""
    shown, note, blocks = profile.timeline, "", list[doc.Block]()
    if shown is not None:
        note = f"Step {shown.step}, the one nearest the median: {words.time(shown.dur_ns)}."
        note += f" {count(shown.dropped, 'range')} left out, the shortest." if shown.dropped else ""
        blocks = [doc.Stage(kind="timeline", data=partial(_lanes, shown)), _gaps(shown)]
    return doc.Section(id="timeline", title="Timeline", note=note, blocks=blocks, detail="page", lead=True)


def _lanes(shown: Timeline) -> dict[str, Any]:
    """Starts as differences to the one before: small numbers compress well. Rows stay in their order."""
    starts = [[b - a for a, b in itertools.pairwise([0, *lane.start_ns])] for lane in shown.lanes]
    lanes = [
        structs.asdict(lane) | {"name": _words.plain(lane.name), "start_ns": start}
        for lane, start in zip(shown.lanes, starts, strict=True)
    ]
    return {"dur": max(shown.dur_ns, 1), **_list_names(shown), "lanes": lanes, "arrows": shown.arrows}


def _list_names(shown: Timeline | CallTree) -> dict[str, Any]:
    return {
        "names": [_words.plain(name[:_NAME]) for name in shown.names],
        "categories": [_words.plain(name) for name in shown.categories],
        "words": [_words.plain(_WORDS.get(name, name)) for name in shown.categories],
    }


def _gaps(shown: Timeline) -> doc.Table:
    """The longest idle gaps of the step, each with what the host's first thread was in at its middle."""
    thread = next((lane for lane in shown.lanes if lane.kind == "host"), Lane(kind="host", name=""))

    def meanwhile(row: tuple[int, int, str, str]) -> str:
        return _innermost(shown, thread, row[1] + row[0] // 2)

    gaps = [
        (ns, at, shown.names[name], lane.name.removesuffix(" idle"))
        for lane in shown.lanes
        if lane.kind == "idle"
        for at, ns, name in zip(lane.start_ns, lane.dur_ns, lane.name_index, strict=True)
    ]
    fields = [
        Field("longest gaps", itemgetter(2), brief=True),
        Field("idle", itemgetter(0), "short", bar=True),
        Field("from", itemgetter(1), "short", "since the start of the step"),
        Field("device", itemgetter(3), "code"),
        Field("the host was in", meanwhile, "code", "on the thread that runs the loop, in the middle of it"),
    ]
    return table("gaps", fields, sorted(gaps, reverse=True)[:_GAPS], key=lambda row: f"{row[3]} {row[1]}")


def _innermost(shown: Timeline, lane: Lane, at: int) -> str:
    columns = zip(lane.depth, lane.start_ns, lane.dur_ns, lane.name_index, strict=True)
    around = [(depth, name) for depth, start, ns, name in columns if start <= at < start + ns]
    return words.operator(shown.names[max(around)[1]]) if around else ""


def calls(profile: Profile) -> doc.Section:
    """Calls with time as width: by what called them, and the modules with their backward."""
    tree, blocks = profile.calls, list[doc.Block]()
    if tree is not None and tree.parent:
        blocks = [doc.Stage(kind="calls", data=partial(_trees, profile, tree))]
    note = f"Mean of {count(profile.overview.steps, 'step')}; width is time, below each call what it called."
    note += f" {count(tree.left_out, 'call')} too short to draw." if tree and tree.left_out else ""
    return doc.Section(id="call-tree", title="Calls", note=note, blocks=blocks, detail="page")


def _trees(profile: Profile, tree: CallTree) -> dict[str, Any]:
    """Trees with own times; of modules with whole ones, the backward of the operators in them included."""
    views = [("time on the host", 0, "host_ns"), ("time of the device", 0, "device_ns")]
    if profile.verdict is not None and profile.verdict.bound in ("device", "communication"):
        views.reverse()
    views += [("modules, device", 1, "device_ns"), ("modules, host", 1, "host_ns")]
    rows, number = profile.modules, len(tree.names)
    place = {row.id: index for index, row in enumerate(rows)}
    spent = {
        side: [getattr(row, f"{side}_total_ns") + (getattr(row, f"backward_{side}_ns") or 0) for row in rows]
        for side in ("host", "device")
    }
    fields = ("parent", "name_index", "category", "calls", "host_ns", "device_ns")
    modules = {
        "parent": [place.get(row.parent, -1) for row in rows],
        "name_index": list(range(number, number + len(rows))),
        "category": [tree.categories.index("module") if "module" in tree.categories else 0] * len(rows),
        "calls": [row.calls for row in rows],
        **{f"{side}_ns": total for side, total in spent.items()},
        "whole": True,
    }
    trees = [{field: getattr(tree, field) for field in fields}, modules]
    return {
        "steps": max(profile.overview.steps, 1),
        **_list_names(structs.replace(tree, names=[*tree.names, *(row.name for row in rows)])),
        "trees": trees,
        "views": [view for view in views if any(trees[view[1]][view[2]])],
    }
