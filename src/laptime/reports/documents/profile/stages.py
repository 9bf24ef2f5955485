"""What the page's script draws: a step event by event, all calls of the steps; the longest gaps."""

from __future__ import annotations

import itertools
from functools import partial
from operator import itemgetter
from typing import Any

from msgspec import structs

from laptime.kit.text import count
from laptime.records.overview import CAUSES
from laptime.records.profile import CallTree, Profile
from laptime.records.tables import Lane, Timeline
from laptime.reports import document as doc
from laptime.reports._words import plain
from laptime.reports.documents.profile import words
from laptime.reports.fields import Field, table

_NAME = 300
"""Characters of a name: some kernels have names as long as this page."""
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
        structs.asdict(lane) | {"name": plain(lane.name), "start_ns": start}
        for lane, start in zip(shown.lanes, starts, strict=True)
    ]
    return {"dur": max(shown.dur_ns, 1), **_named(shown), "lanes": lanes, "arrows": shown.arrows}


def _named(shown: Timeline | CallTree) -> dict[str, Any]:
    return {
        "names": [plain(name[:_NAME]) for name in shown.names],
        "categories": [plain(name) for name in shown.categories],
        "words": [plain(_WORDS.get(name, name)) for name in shown.categories],
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
    place = {row.id: at for at, row in enumerate(rows)}
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
        **_named(structs.replace(tree, names=[*tree.names, *(row.name for row in rows)])),
        "trees": trees,
        "views": [view for view in views if any(trees[view[1]][view[2]])],
    }
