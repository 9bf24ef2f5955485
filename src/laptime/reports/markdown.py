"""The report for a pull request comment or a README: verdict, table, comparisons, the rest folded away."""

from __future__ import annotations

import re

from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports._view import View, view

NAME = "markdown"
SUFFIXES: tuple[str, ...] = (".md", ".markdown")

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$-])")
_SPECIAL_IN_TEXT = re.compile(r"([\\`*_\[\]<>#|~&@$])")


def render(run: Run) -> str:
    """GitHub-flavoured Markdown; names of the user's are escaped, folders and the host's name left out."""
    seen = view(run)
    blocks = [
        f"### {_text(run.verb)} {_name(seen.title)}",
        f"**{seen.trust}**: {_text(seen.because)}"
        + (f"  \n**next**: {_code(seen.next)}" if seen.next else ""),
        _conditions(seen),
        _table(seen),
        _comparisons(seen),
        _findings(seen),
        _failures(seen),
        _details(seen),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _text(text: str) -> str:
    """A sentence with everything escaped that could become markup, a mention or a link."""
    return _SPECIAL_IN_TEXT.sub(r"\\\1", words.without_paths(words.printable(text)))


def _name(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", words.without_paths(words.printable(text)))


def _code(text: str) -> str:
    """Code that holds any number of backticks."""
    text = words.without_paths(words.printable(text))
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _conditions(seen: View) -> str:
    return "  \n".join(
        _text(text) for text in (" · ".join(seen.where), seen.held, "; ".join(seen.regimes)) if text
    )


def _table(seen: View) -> str:
    if not seen.measured:
        return ""
    heads = [_text(f"{c.title} ({c.regime})" if c.regime else c.title) for c in seen.columns]
    rules = [":---" if column.left else "---:" for column in seen.columns]
    rows = [
        [_text(f"{cell.text} {cell.margin}" if cell.margin else cell.text) for cell in row.cells]
        for row in seen.rows
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows))
    return f"{table}\n\n± is half of the 95 % interval." if "±" in table else table


def _comparisons(seen: View) -> str:
    return "\n".join(
        f"- {_text(each.sides)}: **{each.record.word}**{_text(each.sentence.removeprefix(each.record.word))}"
        for each in seen.comparisons
    )


def _findings(seen: View) -> str:
    return "\n".join(
        f"- {_text(finding.sentence)}" + (f" ({_code(finding.next)})" if finding.next else "")
        for finding in seen.findings
    )


def _failures(seen: View) -> str:
    found = []
    for name, status, failure in seen.failures:
        why = f"; why: {_text(failure.why)}" if failure.why else ""
        step = f"; next: {_code(failure.next)}" if failure.next else ""
        found.append(f"- **{status}** {_text(name)}: {_text(failure.what)}{why}{step}")
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
    body = "\n".join(f"- {_text(item)}" for item in items if not item.endswith(": "))
    return f"<details><summary>Model, checks and environment</summary>\n\n{body}\n\n</details>"
