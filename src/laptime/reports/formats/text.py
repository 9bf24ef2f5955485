"""The report on a terminal: verdict first, one table, digits no finer than the interval."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports._paper import fill, foot, printed, titled, wrapped
from laptime.reports._view import Column, Row, View, view

NAME = "text"
SUFFIXES: tuple[str, ...] = (".txt",)

STYLES = {"trusted": "bold green", "noisy": "bold yellow", "invalid": "bold red"}
_GAP = "  "
_LAYOUTS = ((True, 1000), (False, 1000), (False, 28), (False, 18))
"""From wide to narrow: whether intervals show their ends, and how long a name may be."""


def render(run: Run, *, color: bool = False, width: int = 100) -> str:
    """The report as lines of at most `width` columns; only commands to copy and numbers may be longer.

    Args:
        color: with ANSI colours, which repeat what the words say.
    """
    if run.tuning is not None:
        from laptime.reports._tuning import text as tuning  # built from parts of the profile's

        return tuning.render(run, color=color, width=width)
    if run.profile is not None:
        from laptime.reports._profile import (
            text as profile,
        )  # not at the top: it is built from this file's parts

        return profile.render(run, color=color, width=width)
    seen = view(run)
    lines = [*_head(seen, width), *_table(seen, width), *_below(seen, width), *foot(run)]
    return printed(lines, color=color)


def _head(seen: View, width: int) -> list[Text]:
    found = [Text(line) for line in wrapped("", f"{seen.run.verb} {seen.title}", width, indent=0)]
    found += titled(seen.trust, seen.because, width, style=STYLES[seen.trust])
    if seen.next:
        found += titled("next", seen.next, 0, style="bold")
    found.append(Text())
    found += [Text(line, style="dim") for line in wrapped("", " · ".join(seen.where), width, indent=0)]
    return found


def _table(seen: View, width: int) -> list[Text]:
    found = [
        Text(line, style="dim") for text in _conditions(seen) for line in wrapped("", text, width, indent=0)
    ]
    if not seen.measured or not seen.columns:
        return found
    found.append(Text())
    layouts = [(extras, *each) for extras in (True, False) for each in _LAYOUTS]
    for extras, exact, longest in layouts if any(column.extra for column in seen.columns) else layouts[:4]:
        columns, rows = _with_intervals(seen, exact=exact)
        if not extras:
            columns, rows = _without_extras(columns, rows)
        cells = [_fitted(columns, row, longest) for row in rows]
        widths = _widths(columns, cells)
        if sum(widths) + len(_GAP) * len(widths) <= width:
            return [*found, *_grid(columns, cells, widths, seen.rows)]
    return [*found, *_stacked(*_with_intervals(seen, exact=True))]


def _without_extras(columns: list[Column], rows: list[list[str]]) -> tuple[list[Column], list[list[str]]]:
    kept = [index for index, column in enumerate(columns) if not column.extra]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _fitted(columns: list[Column], row: list[str], longest: int) -> list[str]:
    """The row with its names cut to a length; numbers are never cut."""
    return [
        _shortened(text, longest) if column.left else text for column, text in zip(columns, row, strict=True)
    ]


def _conditions(seen: View) -> list[str]:
    """What holds for every row, and what the regimes in the header mean."""
    return [text for text in (seen.held, "; ".join(seen.regimes)) if text]


def _with_intervals(seen: View, *, exact: bool) -> tuple[list[Column], list[list[str]]]:
    """The table with a column for the first latency's interval: its ends, or `±1.2 %` where room is scarce.

    Other numbers show theirs by their digits.
    """
    columns = list(seen.columns)
    rows = [[cell.text for cell in row.cells] for row in seen.rows]
    at = next((i for i, column in enumerate(columns) if column.title == "latency"), None)
    if at is not None:
        columns.insert(at + 1, Column(title="95 % interval" if exact else "95 %"))
        for row, texts in zip(seen.rows, rows, strict=True):
            cell = row.cells[at]
            texts.insert(at + 1, (cell.interval if exact else cell.margin) or "-")
    return columns, rows


def _shortened(text: str, most: int) -> str:
    """The text with its middle left out: the ends of a target tell more."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"


def _widths(columns: list[Column], rows: list[list[str]]) -> list[int]:
    return [
        max(cell_len(column.title), cell_len(column.regime), *(cell_len(row[i]) for row in rows))
        for i, column in enumerate(columns)
    ]


def _grid(columns: list[Column], rows: list[list[str]], widths: list[int], seen: list[Row]) -> list[Text]:
    def line(texts: list[str]) -> str:
        return _GAP + _GAP.join(
            text + fill(text, width) if column.left else fill(text, width) + text
            for text, width, column in zip(texts, widths, columns, strict=True)
        )

    found = [Text(line([column.title for column in columns]), style="bold")]
    if any(column.regime for column in columns):
        found.append(Text(line([column.regime for column in columns]), style="dim"))
    for cells, row in zip(rows, seen, strict=True):
        style = (
            STYLES.get(row.state, "bold red")
            if row.state != "trusted" and columns[-1].title == "verdict"
            else ""
        )
        found.append(Text(line(cells), style=style.removeprefix("bold ")))
    return found


def _stacked(columns: list[Column], rows: list[list[str]]) -> list[Text]:
    """For narrow terminals: a case a block, a number a line."""
    names = [f"{c.title} ({c.regime})" if c.regime else c.title for c in columns]
    wide = max(map(len, names))
    found = []
    for row in rows:
        found += [Text(f"{_GAP}{name.ljust(wide)}  {text}") for name, text in zip(names, row, strict=True)]
        found.append(Text())
    return found[:-1]


def _below(seen: View, width: int) -> list[Text]:
    found = [Text()]
    topics = [*seen.lines, *(("compared", f"{each.sides}: {each.sentence}") for each in seen.comparisons)]
    before = ""
    for topic, text in topics:
        found += titled(topic if topic != before else "", text, width)
        before = topic
    for finding in seen.findings:
        found += titled("found" if finding.severity == "info" else finding.severity, finding.sentence, width)
        if finding.next:
            found += titled("", f"next: {finding.next}", 0)
    found += _checks(seen, width)
    for name, status, failure in seen.failures:
        found += titled(status, name, width, style="bold red")
        for lead, text in (("", failure.what), ("why: ", failure.why), ("next: ", failure.next)):
            if text:
                found += titled("", lead + text, 0 if lead == "next: " else width)
    return found if len(found) > 1 else []


def _checks(seen: View, width: int) -> list[Text]:
    """Reasons beyond the one in the verdict; failures have their own lines."""
    failed = {failure.kind for _, status, failure in seen.failures if status in ("failed", "skipped")}
    groups = words.likewise(seen.reasons)
    if groups and groups[0][0].outcome in ("fail", "warn"):
        groups = groups[1:]  # said with the verdict
    found = []
    for group in groups:
        first = group[0]
        if first.check in failed:
            continue
        style = {"fail": "bold red", "warn": "bold yellow"}.get(first.outcome, "dim")
        found += titled(first.outcome, words.said(group, seen.run), width, style=style)
        if first.next and first.next != seen.next:
            found += titled("", f"next: {first.next}", 0)
    return found
