"""A profile for a pull request: verdict, where the step goes, what to do; tables folded away."""

from __future__ import annotations

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports import _escape as escape
from laptime.reports._profile import facts, words
from laptime.reports._profile.facts import Bar, Fact
from laptime.reports._profile.tables import Table, difference, tables

_FINDINGS = 8


def render(run: Run) -> str:
    """GitHub-flavoured Markdown; names of strangers are escaped, folders of this machine left out."""
    profile = run.profile
    assert profile is not None
    blocks = [
        f"### {escape.text(run.verb)} {escape.name(words.title(run))}",
        f"**{words.bound(profile)}**: {escape.text(words.sentence(profile))}",
        escape.text(" · ".join(words.where(run))),
        _bars("step", f"step: {facts.step(profile)}", facts.breakdown(profile)),
        _bars("idle because", f"idle: {facts.idle_sentence(profile)}", facts.idle(profile)),
        _bars("phase on the host", "", facts.phases(profile)) if not profile.overview.devices else "",
        listed([*facts.facts(profile), *facts.stragglers(profile)]),
        _against(profile),
        _findings(run, profile),
        listed([("warning", text) for text in words.warnings(run)]),
        folded(
            "Operators and kernels", [tabled(table) for table in tables(profile) if table.title != "ranks"]
        ),
        folded("Ranks", [tabled(table) for table in tables(profile, ranks=64) if table.title == "ranks"]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _bars(head: str, sentence: str, bars: list[Bar]) -> str:
    """Parts of the step as a table, after the sentence that they stand for."""
    if not bars:
        return ""
    notes = any(bar.note for bar in bars)
    made = Table(
        title=head,
        columns=[head, "a step", "share", *([""] if notes else [])],
        rows=[
            [bar.name, words.time(bar.ns), words.percent(bar.share), *([_note(bar)] if notes else [])]
            for bar in bars
        ],
        left=[head, ""],
        all=len(bars),
    )
    return "\n\n".join(filter(None, [escape.text(sentence), tabled(made)]))


def _note(bar: Bar) -> str:
    return f"{bar.note} ({bar.place})" if bar.place else bar.note


def listed(told: list[Fact]) -> str:
    """A topic an item; what follows without a topic goes on in it."""
    items: list[str] = []
    for topic, text in told:
        if topic or not items:
            items.append(f"- {escape.text(topic)}: {escape.text(text)}")
        else:
            items[-1] += f"; {escape.text(text)}"
    return "\n".join(items)


def tabled(table: Table) -> str:
    columns = list(table.columns)
    if table.all > len(table.rows):
        columns[0] += f" ({len(table.rows)} of {table.all:,})"
    rules = [":---" if i == 0 or title in table.left else "---:" for i, title in enumerate(columns)]
    rows = [[escape.text(cell) for cell in row] for row in [columns, *table.rows]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (rows[0], rules, *rows[1:]))


def _against(profile: Profile) -> str:
    seen, table = profile.against, difference(profile)
    if seen is None or table is None:
        return ""
    head = f"**Against {escape.name(seen.before)}**: {escape.text(seen.sentence)}"
    return head + (f"\n\n{tabled(table)}" if table.rows else "")


def _findings(run: Run, profile: Profile) -> str:
    if not run.findings:
        return ""
    shown = run.findings[:_FINDINGS]
    items = [_finding(number, finding, profile) for number, finding in enumerate(shown, 1)]
    if more := len(run.findings) - len(shown):
        items.append(f"\nand {more} more")
    return "**Next**\n\n" + "\n".join(items)


def _finding(number: int, finding: Finding, profile: Profile) -> str:
    gain = words.gain(finding, profile.overview.step_ns)
    lines = [f"{number}. " + (f"**{gain}**: " if gain else "") + escape.text(finding.sentence)]
    if finding.change:
        place = words.place(finding.stack)
        lines.append("   " + escape.text(finding.change) + (f" at {escape.code(place)}" if place else ""))
    for step in words.steps_to_take(finding):
        lines.append("   " + (escape.code(step) if step.startswith("laptime ") else escape.text(step)))
    return "  \n".join(lines)


def folded(summary: str, blocks: list[str]) -> str:
    body = "\n\n".join(blocks)
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>" if body else ""
