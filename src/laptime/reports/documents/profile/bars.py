"""What adds up, as bars: the mean step by part, idle time by cause, phases, ranks, the untraced step."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from laptime.records.overview import Breakdown
from laptime.records.profile import Profile
from laptime.records.ranks import RankRow
from laptime.reports import _words
from laptime.reports.document import Bar, Bars, Detail
from laptime.reports.documents.profile import facts, words

RANKS = 64
"""Ranks with a bar."""

_LEAST = 0.001
_LEAST_CAUSE = 0.005
"""Shares of the step below which a part, or a cause of idle time, is not on a terminal."""


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
    """Of a duration, with its share of the whole; below `least` it is not on a terminal."""
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
    """Why the device was idle, per step, longest first; shares are of the step."""
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


def untraced(profile: Profile) -> Bars:
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
