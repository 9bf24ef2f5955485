"""A session of `tune` for a pull request: the gain, the ladder, the gates; the patch folded away."""

from __future__ import annotations

import re

from laptime.records.run import Run
from laptime.records.tuning import Tuning
from laptime.reports import _escape as escape
from laptime.reports import _words
from laptime.reports._profile.markdown import folded, listed, tabled
from laptime.reports._profile.tables import Table
from laptime.reports._tuning import rows, words


def render(run: Run) -> str:
    """GitHub-flavoured Markdown; names of strangers are escaped, folders of this machine left out."""
    tuning = run.tuning
    assert tuning is not None
    own = words.verdict(run)
    blocks = [
        f"### {escape.text(run.verb)} {escape.name(words.title(run))}",
        f"**{escape.text(own.word)}**: {escape.text(own.sentence)}",
        escape.text(" · ".join(words.where(run))),
        listed(rows.bounds(tuning)),
        tabled(parts) if (parts := rows.parted(tuning)).rows else "",
        _ladder(tuning),
        listed(_sameness(tuning)),
        listed(rows.patch(tuning)),
        "\n".join(f"- next: {escape.code(step)}" for step in rows.next_steps(run)),
        listed([(finding.severity, finding.sentence) for finding in run.findings]),
        folded("The patch", [_diff(tuning.patch.text)]),
        folded("Suggested, not applied", [_diff(rows.suggestions(tuning))]),
        folded("Not tried", [listed(_ruled_out(tuning))]),
        f"Session: {escape.text(words.spent(run))}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _ladder(tuning: Tuning) -> str:
    table, seen = rows.ladder(tuning)
    if not seen:
        return ""
    wide = Table(
        title=table.title,
        columns=[*table.columns, "why"],
        rows=[[*row, words.reason(rung)] for row, rung in zip(table.rows, seen, strict=True)],
        left=[*table.left, "why"],
        all=table.all,
    )
    control = rows.control(tuning)
    return tabled(wide) + (f"\n\nControl: {escape.text(control)}." if control else "")


def _sameness(tuning: Tuning) -> list[rows.Fact]:
    told = [("gate", rows.gated(tuning.gate))] if tuning.gate.word != "none" else []
    told += [(check.outcome, rows.asked(check)) for check in rows.doubts(tuning.gate)]
    if text := rows.convergence(tuning):
        told.append(("convergence", text))
    return told


def _ruled_out(tuning: Tuning) -> list[rows.Fact]:
    return [*rows.untried(tuning), *((name, why) for name, why in tuning.ruled_out.items())]


def _diff(text: str) -> str:
    """A fenced block that no line of the diff can end."""
    if not text:
        return ""
    lines = [_words.printable(line.expandtabs(4)) for line in text.split("\n")]
    body = "\n".join(_words.without_paths(line) for line in lines).rstrip()
    fence = "`" * max(3, 1 + max((len(own) for own in re.findall("`+", body)), default=0))
    return f"{fence}diff\n{body}\n{fence}"
