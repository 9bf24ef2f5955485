"""The report for a pull request comment or a README: verdict, table, comparisons, the rest folded away."""

from __future__ import annotations

from laptime.records.run import Run
from laptime.records.verdict import conclusion, summary
from laptime.reports import _escape as escape
from laptime.reports import _words as words
from laptime.reports._view import View, view

NAME = "markdown"
SUFFIXES: tuple[str, ...] = (".md", ".markdown")


def render(run: Run) -> str:
    """GitHub-flavoured Markdown; names of the user's are escaped, folders and the host's name left out."""
    if run.tuning is not None:
        from laptime.reports._tuning import markdown as tuning

        return tuning.render(run)
    if run.profile is not None:
        from laptime.reports._profile import markdown as profile  # needed by few runs

        return profile.render(run)
    seen = view(run)
    blocks = [
        f"### {escape.text(run.verb)} {escape.name(seen.title)}",
        f"**{conclusion(run.verdicts)}**: {summary(run.verdicts)}" if run.verdicts else "",
        f"**{seen.trust}**: {escape.text(seen.because)}"
        + (f"  \n**next**: {escape.code(seen.next)}" if seen.next else ""),
        _conditions(seen),
        _table(seen),
        _comparisons(seen),
        _findings(seen),
        _failures(seen),
        _details(seen),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _conditions(seen: View) -> str:
    return "  \n".join(
        escape.text(text) for text in (" · ".join(seen.where), seen.held, "; ".join(seen.regimes)) if text
    )


def _table(seen: View) -> str:
    if not seen.measured:
        return ""
    heads = [escape.text(f"{c.title} ({c.regime})" if c.regime else c.title) for c in seen.columns]
    rules = [":---" if column.left else "---:" for column in seen.columns]
    rows = [
        [escape.text(f"{cell.text} {cell.margin}" if cell.margin else cell.text) for cell in row.cells]
        for row in seen.rows
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows))
    return f"{table}\n\n± is half of the 95 % interval." if "±" in table else table


def _comparisons(seen: View) -> str:
    return "\n".join(
        f"- {escape.text(each.sides)}: **{each.record.word}**"
        + escape.text(each.sentence.removeprefix(each.record.word))
        for each in seen.comparisons
    )


def _findings(seen: View) -> str:
    return "\n".join(
        f"- {escape.text(finding.sentence)}" + (f" ({escape.code(finding.next)})" if finding.next else "")
        for finding in seen.findings
    )


def _failures(seen: View) -> str:
    found = []
    for name, status, failure in seen.failures:
        why = f"; why: {escape.text(failure.why)}" if failure.why else ""
        step = f"; next: {escape.code(failure.next)}" if failure.next else ""
        found.append(f"- **{status}** {escape.text(name)}: {escape.text(failure.what)}{why}{step}")
    return "\n".join(found)


def _details(seen: View) -> str:
    """What few readers need: model, start-up, every check that had something to say, the machine."""
    environment = seen.run.environment
    items = [f"{topic}: {text}" for topic, text in seen.lines]
    items += [f"{group[0].outcome}: {words.said(group, seen.run)}" for group in words.likewise(seen.reasons)]
    items += [
        f"machine: {environment.cpu}, {environment.os}, Python {environment.python}",
        "libraries: " + ", ".join(f"{name} {version}" for name, version in environment.libraries.items()),
        "settings: " + ", ".join(f"{name} {value}" for name, value in environment.knobs.items()),
        f"command: {words.command(seen.run)}",
        f"fingerprint {environment.fingerprint}, run {seen.run.id}, laptime {seen.run.laptime}",
    ]
    body = "\n".join(f"- {escape.text(item)}" for item in items if not item.endswith(": "))
    return f"<details><summary>Model, checks and environment</summary>\n\n{body}\n\n</details>"
