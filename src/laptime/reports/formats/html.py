"""The report as one page: complete, offline, readable without JavaScript, safe with hostile names.

Everything is drawn on this side: tables as HTML, charts as SVG. The script adds tooltips, sorting, copying
and the choice of theme. Folders of the machine and its name are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup

from laptime.analysis.summary import Stat
from laptime.kit.units import show, show_interval
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.reports import _charts as charts
from laptime.reports import _processes as processes
from laptime.reports import _samples as samples
from laptime.reports import _words as words
from laptime.reports import page
from laptime.reports._onefile import asset, inlined, policy, template
from laptime.reports._view import (
    Stats,
    View,
    head,
    memory,
    startup,
    startups,
    throughput_told,
    view,
)
from laptime.reports.formats import json as document

NAME = "html"
SUFFIXES: tuple[str, ...] = (".html", ".htm")

POINTS = 6000
"""Samples drawn on a whole page, about; a case gets its share of them, at most a third."""


def render(run: Run) -> str:
    """The whole page; a run with a profile or a tuning has a page of its own."""
    if run.tuning is not None:
        from laptime.reports.documents.tuning import document as tuning_document  # needed by few runs

        return page.render(tuning_document(run))
    if run.profile is not None:
        from laptime.reports.documents.profile import document as profile_document  # needed by few runs

        return page.render(profile_document(run))
    seen = view(run)
    style, script = asset("page.css"), asset("shell.js", "page.js")
    figures = _figures(run, seen.stats)
    points = [each.figure.points for case in figures for each in case.figures]
    return template(asset("page.html")).render(
        seen=seen,
        run=run,
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        report=inlined(msgspec.json.decode(document.encoded(document.document(run)))),
        points=inlined({"kinds": [kind.words for kind in samples.KINDS], "series": points}),
        cards=_cards(seen),
        panels=_panels(seen),
        speedups=charts.speedups([each.record for each in seen.comparisons]),
        speed_axis=charts.speed_axis([each.record for each in seen.comparisons]),
        cases=figures,
        starts=startups(run, seen.stats, lambda own: charts.waterfall(startup(own))),
        memories=_memories(seen),
        processes=processes.curves(run),
        receipts=_receipts(run),
        environment=_environment(run),
        plan=[(name, setting.value, setting.origin) for name, setting in run.plan.items()],
    )


class Card(NamedTuple):
    """A key number: what it is, the number, its interval, the conditions it holds for."""

    title: str
    text: str
    interval: str
    conditions: str


def _cards(seen: View) -> list[Card]:
    """The numbers that people come for, each with the case that it was reached in."""
    found: list[Card] = []
    heads = [stat for own in seen.stats if (stat := head(own)) and stat.value is not None]
    regime = heads[0].regime if heads else ""
    wanted: list[tuple[str, Callable[[float], float]]] = [
        (f"latency/{regime}/median", lambda value: -value),
        (f"throughput/{throughput_told(seen.stats)}", lambda value: value),
        ("flops/share_of_peak", lambda value: value),
        ("memory/device/peak", lambda value: value),
        ("memory/host/peak", lambda value: value),
        *((tag, lambda value: -value) for own in seen.stats[:1] for tag in own if tag.startswith("energy/")),
    ]
    for tag, key in wanted:
        known = [
            (case, own[tag])
            for case, own in zip(seen.run.cases, seen.stats, strict=True)
            if tag in own and own[tag].value is not None
        ]
        if known:
            case, stat = max(known, key=lambda pair: key(pair[1].value or 0.0))
            found.append(_card(seen, case, stat, several=len(known) > 1))
    return found[:6]


def _card(seen: View, case: Case, stat: Stat, *, several: bool) -> Card:
    title = stat.title
    if several and stat.better != "none":
        title = (
            f"{'highest' if stat.better == 'higher' or stat.tag.startswith('memory/') else 'lowest'} {title}"
        )
    conditions = [stat.regime] if stat.regime else []
    conditions += [words.label(case, seen.run)] if len(seen.run.cases) > 1 else []
    conditions += [seen.held] if seen.held else []
    interval = show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 and stat.value else ""
    return Card(title, show(stat.value, stat.unit, stat.ci95), interval, ", ".join(conditions))


def _panels(seen: View) -> list[charts.Panel]:
    tags = {tag for own in seen.stats for tag in own}
    told = throughput_told(seen.stats)
    rate = f"throughput/{told}" if told else ""
    times = next(
        (
            f"latency/{r}/median"
            for r in ("isolated", "paced", "device", "saturated")
            if f"latency/{r}/median" in tags
        ),
        "",
    )
    wanted = [
        (rate, f"Throughput ({rate.rpartition('/')[2]})"),
        (times, f"Median latency ({times.split('/')[1] if times else ''})"),
    ]
    return charts.against_batch(seen.run, seen.stats, wanted)


class Drawn(NamedTuple):
    """One series of a case: regime, figure, how many samples."""

    regime: str
    figure: samples.Figure
    note: str


class CaseFigures(NamedTuple):
    """What a case has to show: figures, every statistic, every check."""

    case: Case
    label: str
    figures: list[Drawn]
    stats: list[tuple[Stat, str, str, str]]


def _figures(run: Run, stats: list[Stats]) -> list[CaseFigures]:
    number = sum(bool(s.samples) for c in run.cases for s in c.series if s.metric.tag == "latency")
    most = min(POINTS // 3, max(150, POINTS // max(1, number)))
    found = []
    for case, own in zip(run.cases, stats, strict=True):
        drawn = []
        for series in case.series:
            if series.metric.tag == "latency" and series.samples:
                regime = series.regime or ""
                made = samples.figure(series, own, most=most)
                drawn.append(Drawn(regime, made, series.note))
        drawn.sort(key=lambda each: each.regime != "isolated")
        rows = [(stat, *_cells(stat), _meaning(case, stat)) for stat in own.values()]
        found.append(CaseFigures(case, words.label(case, run), drawn, rows))
    return found


def _cells(stat: Stat) -> tuple[str, str]:
    known = stat.ci95 is not None and stat.value is not None
    return show(stat.value, stat.unit, stat.ci95), show_interval(
        stat.ci95, stat.value or 0.0, stat.unit
    ) if known else ""


def _meaning(case: Case, stat: Stat) -> str:
    """What the metric means, and when it lies."""
    kind = "latency" if stat.tag.startswith(("latency/", "throughput/")) else stat.tag
    metric = next((s.metric for s in case.series if s.metric.tag == kind), None)
    if metric is None:
        return ""
    return " ".join(
        text
        for text in (metric.meaning, f"Lies when: {metric.lies_when}" if metric.lies_when else "")
        if text
    )


def _memories(seen: View) -> list[tuple[str, list[charts.Bar]]]:
    """Memory of each case, all on one axis, so that bars of different cases can be compared."""
    every = [
        (case, stat) for case, own in zip(seen.run.cases, seen.stats, strict=True) for stat in memory(own)
    ]
    names = [stat.tag.removeprefix("memory/").replace("/", " ") for _, stat in every]
    found: dict[str, list[charts.Bar]] = {}
    for (case, _), bar in zip(every, charts.bars([stat for _, stat in every], names), strict=True):
        found.setdefault(words.label(case, seen.run), []).append(bar)
    return list(found.items())


def _receipts(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the model is, and what was counted for its FLOPs; equal ones are shown once."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, title in (("model", "The model and its inputs"), ("count", "What was counted as FLOPs")):
        for case in run.cases:
            rows = _flat(case.details.get(name, {}))
            if rows and rows not in found.values():
                label = words.label(case, run)
                found[f"{title}: {label}" if len(run.cases) > 1 else title] = rows
    return list(found.items())


def _flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested facts as (name, text) rows; large numbers get a readable size."""
    if isinstance(value, dict):
        return [
            row for key, item in value.items() for row in _flat(item, f"{name} / {key}" if name else str(key))
        ]
    if isinstance(value, list | tuple):
        return [(name, ", ".join(str(item) for item in value))] if value else []
    if (
        isinstance(value, float | int)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) >= 1e5
    ):
        return [(name, show(float(value), "1"))]
    return [(name, "yes" if value is True else "no" if value is False else str(value))]


def _environment(run: Run) -> list[tuple[str, str]]:
    environment = run.environment
    facts: dict[str, Any] = msgspec.to_builtins(environment)
    for name in ("host", "affinity", "memory", "memory_limit"):
        facts.pop(name, None)
    rows = [("command", words.command(run))] if run.command else []
    rows += [("fingerprint", environment.fingerprint), ("memory", show(environment.memory, "B"))]
    if environment.memory_limit is not None:
        rows.append(("memory limit", show(environment.memory_limit, "B")))
    devices = facts.pop("devices", [])
    rows += [(name.replace("_", " "), text) for name, text in _flat(facts)]
    for device in devices:
        rows += [(f"{device['name']} / {name}", text) for name, text in _flat(device) if name != "name"]
    return rows
