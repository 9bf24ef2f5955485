"""The document of `laptime history`: a metric of each case over stored runs, and where its level changed."""

import math
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec

from laptime.analysis.change_points import FEWEST
from laptime.kit.text import count, some
from laptime.kit.units import estimate, show, show_interval
from laptime.kit.units import scale as unit_of
from laptime.records.comparison import History, Point
from laptime.reports import document as doc
from laptime.reports.fields import Field, tabulate
from laptime.reports.page.plot import Axis, Border, Level, Plot, Spot, Style
from laptime.reports.page.svg import Labels

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # blocks of a line at most; more runs than that share one, by their median
_TOLD = 2  # differences between conditions that the table tells
LEAST_SPAN = 0.05  # share of the level that a line's height stands for at least: noise of 1 % is no mountain
_RUN = Style("ring", "c0")


def document(histories: Sequence[History], *, by: str) -> doc.Document:
    """Every case in a table, then each with its chart, its changes and its runs."""
    overview = doc.Section("cases", "Cases", [_overview(histories)], headed=False)
    return doc.Document(
        verb="history",
        title=f"{count(len(histories), 'case')} over time",
        verdict=_headline(histories),
        brief=[_overview(histories)],
        sections=[overview, *(_section(history, by, index) for index, history in enumerate(histories, 1))],
        data=lambda: data(histories),
        about="A change in the numbers is not yet a change in the program: measure both revisions, "
        "interleaved, with laptime check TARGET --against-rev COMMIT.",
    )


def data(histories: Sequence[History]) -> dict[str, Any]:
    """The histories for machines."""
    return {"schema": "laptime.history/1", "histories": msgspec.to_builtins(histories)}


def _headline(histories: Sequence[History]) -> doc.Headline:
    steps = [step for history in histories for step in history.steps]
    told = [history for history in histories if not history.note]
    if not told:
        most = max(len(history.points) for history in histories)
        return doc.Headline(
            "too few runs",
            "unknown",
            f"a change of level needs at least {FEWEST} runs of a case; the most there are is {most}",
        )
    is_worse = any(history.steps and history.steps[-1].word == "worse" for history in histories)
    few = f" in {len(told)} of {count(len(histories), 'case')}; the others have too few runs"
    where = "; ".join(f"{each.case} {step.word}, {step.sentence}" for each in told for step in each.steps)
    found = where or "no change of level was found" + (few if len(told) < len(histories) else "")
    return doc.Headline(
        "worse" if is_worse else "changed" if steps else "steady",
        "invalid" if is_worse else "noisy" if steps else "trusted",
        f"{found}; the chance of reporting a change that did not happen is 1 %, as long as neighbouring "
        "runs are no more alike than others",
    )


def _overview(histories: Sequence[History]) -> doc.Table:
    fields = [
        Field("case", "case", "code"),
        # All differences stand with the case.
        any(history.differs for history in histories)
        and Field("differs in", lambda history: some(history.differs, _TOLD)),
        Field("runs", lambda history: len(history.points), "count"),
        Field("history", lambda history: sparkline([point.value for point in history.points]), priority=1),
        Field("first", lambda history: _value(history, history.points[0]), "number"),
        Field("last", lambda history: _value(history, history.points[-1]), "number"),
        Field("changes", _changes),
    ]
    return tabulate("overview", fields, histories)


def _changes(history: History) -> str:
    changes = ", ".join(f"{step.word} {step.ratio:.2f}x" for step in history.steps)
    return changes or ("too few runs" if history.note else "none found")


def _value(history: History, point: Point) -> doc.Cell:
    bound = "at least " if point.at_least else ""
    return doc.Cell(bound + show(point.value, history.unit, point.ci95), point.value)


def _section(history: History, by: str, number: int) -> doc.Section:
    conditions = f"conditions {history.conditions}" if history.conditions else "conditions mixed"
    if history.machine:
        conditions += f" on {history.machine}"
    excluded = f"{count(history.left_out, 'run')} left out" if history.left_out else ""
    apart = f"apart from others of this case: {'; '.join(history.differs)}" if history.differs else ""
    numbers = count(len(history.points), "run")
    facts = [f"{history.title} ({history.metric})", numbers, conditions, excluded, apart, history.note]
    title = f"{history.title} of {history.case} by run"
    unit = history.unit
    fields = [
        Field("run", "run"),
        Field("commit", _commit, "code"),
        Field("value", lambda point: _value(history, point), "number"),
        Field("95 % interval", lambda point: show_interval(point.ci95, point.value, unit), "number"),
        Field("verdict", lambda point: doc.Cell(point.trust, tone=point.trust)),
    ]
    blocks = [
        doc.Text(", ".join(filter(None, facts)), detail="brief" if history.steps or by != "run" else "page"),
        doc.Chart("", partial(chart, history, title)),
        doc.Notices([doc.Notice(s.word, f"{s.sentence} (p = {s.p:.2g})") for s in history.steps]),
        _groups(history, by, f"groups{number}"),
        doc.Folded("Every run", [tabulate(f"runs{number}", fields, reversed(history.points))], detail="page"),
    ]
    return doc.Section(f"case{number}", history.case, blocks)


def _groups(history: History, by: str, id: str) -> doc.Table:
    def median(row: tuple[str, list[Point]]) -> doc.Cell:
        return doc.Cell(show(statistics.median(point.value for point in row[1]), history.unit))

    fields = [
        Field(by, lambda row: row[0]),
        Field("median", median, "number"),
        Field("runs", lambda row: len(row[1]), "count"),
    ]
    return tabulate(id, fields, groups(history, by).items() if by != "run" else [])


def _commit(point: Point) -> str:
    return point.commit[:10] + ("+" if point.dirty else "")


def groups(history: History, by: str) -> dict[str, list[Point]]:
    """Points by commit or by the versions that differ within the history, in the order of their first run."""
    values = {
        name: {point.versions.get(name) for point in history.points} for name in history.points[-1].versions
    }
    versions = [name for name, seen in values.items() if len(seen) > 1]
    groups: dict[str, list[Point]] = {}
    for point in history.points:
        label = ", ".join(f"{name} {point.versions.get(name, '?')}" for name in versions)
        if by == "machine":
            label = point.machine or "no name"
        if by == "commit":
            label = _commit(point) if point.commit else "no commit"
        groups.setdefault(label or "the same versions", []).append(point)
    return groups


def sparkline(values: Sequence[float]) -> str:
    """One block a value; beyond `WIDTH`, one a group of neighbours, by their median.

    From 20 values on, the highest and the lowest twentieth are cut off: one wild run flattens no line."""
    if len(values) > WIDTH:
        edges = [round(at * len(values) / WIDTH) for at in range(WIDTH + 1)]
        values = [statistics.median(values[a:b]) for a, b in pairwise(edges)]
    ordered = sorted(values)
    cut = len(values) // 20
    low, high = ordered[cut], ordered[-1 - cut]
    middle = (low + high) / 2
    span = max(high - low, LEAST_SPAN * abs(middle)) or 1.0
    shares = [(value - middle) / span + 0.5 for value in values]
    return "".join(BLOCKS[max(0, min(len(BLOCKS) - 1, int(share * len(BLOCKS))))] for share in shares)


def chart(history: History, label: str) -> Plot:
    """Values over runs, oldest first; `label` says to a screen reader what is drawn."""
    points = history.points
    ends = [end for point in points for end in (point.value, *(point.ci95 or ())) if math.isfinite(end)]
    factor, unit = unit_of(max(ends), history.unit)
    middle = (min(ends) + max(ends)) / 2
    reach = max((max(ends) - min(ends)) * 0.56, 0.03 * middle)
    return Plot(
        label=label,
        x=Axis(-0.5, len(points) - 0.5, write=lambda _, most: _days(points, most)),
        y=Axis(middle - reach, middle + reach, unit=(factor, "per second" if unit == "/s" else unit)),
        marks=[
            *(Border(step.at - 0.5, f"{step.ratio:.2f}x") for step in history.steps),
            *_levels(history),
            *(_spot(index, point, history.unit) for index, point in enumerate(points)),
        ],
        height=250,
        margins={"bottom": 30},
    )


def _days(points: Sequence[Point], most: int) -> Labels:
    every = max(1, math.ceil(len(points) / most))
    return [(at, points[at].started[:10]) for at in range(0, len(points), every)]


def _levels(history: History) -> Iterator[Level]:
    for begin, end in pairwise([0, *(step.at for step in history.steps), len(history.points)]):
        level = statistics.median(point.value for point in history.points[begin:end])
        yield Level(level, "median", across=(begin - 0.5, end - 0.5))


def _spot(at: int, point: Point, unit: str) -> Spot:
    shown = estimate(show(point.value, unit, point.ci95), show_interval(point.ci95, point.value, unit))
    return Spot(at, point.value, _RUN, f"{point.run} {point.commit[:10]}: {shown}", point.ci95)
