"""A history in a table with one small line of blocks a case, for terminals and pull requests."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.history import History, Point
from laptime.reports import _escape as escape
from laptime.reports._words import printable

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
"""Blocks of a line at most; more runs than that share one, by their median."""
LEAST_SPAN = 0.05
"""Share of the level that the height of a line stands for at least: noise of 1 % is no mountain."""

HEADS = ("case", "runs", "history", "first", "last", "changes")


class Group(NamedTuple):
    """Points that share a label: a commit, a version."""

    label: str
    points: list[Point]

    @property
    def median(self) -> float:
        """Of the group's values."""
        return statistics.median(point.value for point in self.points)


def text(histories: Sequence[History], *, by: str) -> str:
    """The table, then every change in a sentence."""
    rows = [HEADS, *(_cells(each) for each in histories)]
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(HEADS))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    for each in histories:
        told = _sentences(each)
        if told or by != "run":
            lines += ["", *_head(each)]
            lines += [f"  {sentence}" for sentence in told]
            lines += [f"  {line}" for line in _groups(each, by)]
    return "\n".join(lines) + "\n"


def markdown(histories: Sequence[History], *, by: str) -> str:
    """The same as GitHub-flavoured Markdown."""
    rows = [HEADS, *(_cells(each) for each in histories)]
    table = ["| " + " | ".join(escape.text(cell) for cell in row) + " |" for row in rows]
    table.insert(1, "| :--- | ---: | :--- | ---: | ---: | :--- |")
    told = [f"- {escape.name(each.case)}: {escape.text(s)}" for each in histories for s in _sentences(each)]
    told += [
        f"- {escape.name(each.case)}: {escape.text(line)}" for each in histories for line in _groups(each, by)
    ]
    return "\n".join(["### history", "", *table, *([""] if told else []), *told]) + "\n"


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    right = ("runs", "first", "last")
    cells = zip(HEADS, row, widths, strict=True)
    fills = [(cell, " " * (width - cell_len(cell)), head in right) for head, cell, width in cells]
    return [fill + cell if is_right else cell + fill for cell, fill, is_right in fills]


def _cells(history: History) -> tuple[str, ...]:
    points = history.points
    changed = ", ".join(f"{step.word} {step.ratio:.2f}x" for step in history.steps)
    return (
        printable(history.case),
        str(len(points)),
        sparkline([point.value for point in points]),
        show(points[0].value, history.unit, points[0].ci95),
        show(points[-1].value, history.unit, points[-1].ci95),
        changed or history.note or "none found",
    )


def _head(history: History) -> list[str]:
    conditions = f", conditions {history.conditions}" if history.conditions else ", conditions mixed"
    out = f", {count(history.left_out, 'run')} left out" if history.left_out else ""
    return [f"{printable(history.case)}: {printable(history.title)} ({history.metric}){conditions}{out}"]


def _sentences(history: History) -> list[str]:
    return [f"{step.word}: {printable(step.sentence)} (p = {step.p:.2g})" for step in history.steps]


def _groups(history: History, by: str) -> list[str]:
    if by == "run":
        return []
    return [
        f"{printable(group.label)}: {show(group.median, history.unit)}, {count(len(group.points), 'run')}"
        for group in groups(history, by)
    ]


def groups(history: History, by: str) -> list[Group]:
    """Points by commit or by the versions that differ within the history, in the order of their first run."""
    varying = [
        name
        for name in history.points[-1].versions
        if len({point.versions.get(name) for point in history.points}) > 1
    ]

    def label(point: Point) -> str:
        if by == "commit":
            return (point.commit[:10] or "no commit") + ("+" if point.dirty else "")
        if by == "version":
            return (
                ", ".join(f"{name} {point.versions.get(name, '?')}" for name in varying)
                or "the same versions"
            )
        return point.run

    found: dict[str, list[Point]] = {}
    for point in history.points:
        found.setdefault(label(point), []).append(point)
    return [Group(name, points) for name, points in found.items()]


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """One block a value; beyond `width`, one a group of neighbours, by their median.

    From 20 values on, the highest and the lowest twentieth are cut off: one wild run flattens no line.
    """
    if len(values) > width:
        edges = [round(at * len(values) / width) for at in range(width + 1)]
        values = [statistics.median(values[a:b]) for a, b in pairwise(edges)]
    ordered = sorted(values)
    cut = len(values) // 20
    low, high = ordered[cut], ordered[-1 - cut]
    middle = (low + high) / 2
    span = max(high - low, LEAST_SPAN * abs(middle)) or 1.0
    shares = [(value - middle) / span + 0.5 for value in values]
    return "".join(BLOCKS[max(0, min(len(BLOCKS) - 1, int(share * len(BLOCKS))))] for share in shares)
