"""The page of a session: the gain first, then what bounds the step, the ladder, the gates, the patch.

One file, complete without its script: tables are HTML, charts are SVG, the patch is text.
"""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from laptime.analysis import tuned
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.records.tuning import Gate, GateCheck, Rung, Tuning
from laptime.reports import _words
from laptime.reports._onefile import asset, plain, policy, template
from laptime.reports._tuning import drawings, rows, words


class Card(NamedTuple):
    """A key number with what it means."""

    title: str
    figure: str
    note: str


class Line(NamedTuple):
    """A line of the patch: `kind` is added, removed, hunk, file or same."""

    kind: str
    text: str


class Question(NamedTuple):
    """A question of a gate as a row."""

    name: str
    outcome: str
    value: str
    limit: str
    sentence: str


class Row(NamedTuple):
    """A rung as a row of the ladder's table."""

    rung: Rung
    label: str
    cells: list[str]
    reason: str
    questions: list[Question]


def render(run: Run) -> str:
    """The whole page."""
    tuning = run.tuning
    assert tuning is not None
    style, script = asset("page.css", "profile.css", "tuning.css"), asset("shell.js")
    table, seen = rows.ladder(tuning)
    before, after = tuning.before, tuning.after
    return template(
        asset("grid.html", "tuning.html")
    ).render(
        run=run,
        tuning=tuning,
        title=plain(words.title(run)).removeprefix("…/"),
        where=words.where(run),
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        verdict=words.verdict(run),
        steps=rows.next_steps(run),
        cards=_cards(run, tuning),
        bounds=rows.bounds(tuning),
        diagnosed=drawings.before_and_after(before.shares if before else {}, after.shares if after else {}),
        traced=drawings.before_and_after(*_traced(tuning)),
        shares=rows.parted(tuning),
        stairs=drawings.stairs(tuning),
        heads=[(head, head in table.left) for head in table.columns[1:]],
        left=[head in table.left for head in table.columns[1:]],
        ladder=[_row(rung, cells) for rung, cells in zip(seen, table.rows, strict=True)],
        control=rows.control(tuning),
        untried=rows.untried(tuning),
        gated=rows.gated(tuning.gate),
        questions=_questions(tuning.gate),
        convergence=rows.convergence(tuning),
        losses=drawings.losses(tuning.convergence),
        patch=rows.patch(tuning),
        diff=lines(tuning.patch.text),
        suggestions=lines(rows.suggestions(tuning)),
        spent=_spent(tuning),
        session=words.spent(run),
        environment=_environment(run),
        failures=[(case.status, case.failure) for case in run.cases if case.failure is not None],
    )


def _traced(tuning: Tuning) -> tuple[dict[str, float], dict[str, float]]:
    """Parts of traced steps; nothing where there was no time for a trace, and the diagnosis stands in."""
    before = tuning.before.shares if tuning.before else {}
    is_traced = tuning.breakdown_before != before
    return (tuning.breakdown_before, tuning.breakdown_after) if is_traced else ({}, {})


def _cards(run: Run, tuning: Tuning) -> list[Card]:
    made = []
    first, last = tuning.baseline, tuning.final
    if first and last:
        made.append(Card("samples per second", words.rate(last), f"{words.rate(first)} before"))
        made.append(Card("a step", show(last.step, "s"), f"{show(first.step, 's')} before"))
        if first.peak and last.peak:
            made.append(Card("peak memory", show(last.peak, "B"), f"{show(first.peak, 'B')} before"))
    before, after = tuning.before, tuning.after
    if before and after and before.utilization is not None and after.utilization is not None:
        note = f"{_words.percent(before.utilization)} before"
        made.append(Card("device busy", _words.percent(after.utilization), note))
    if (least := tuned.detectable(run)) is not None:
        note = "of a step, by the script against itself"
        made.append(Card("least that can be shown", _words.percent(least), note))
    made.append(Card("changes kept", str(len(tuning.recipe)), f"of {len(tuned.tried(tuning))} tried"))
    return made[:6]


def _row(rung: Rung, cells: list[str]) -> Row:
    asked = rung.gate.checks if rung.gate.word in ("failed", "undecided") else []
    return Row(rung, cells[0], cells[1:], words.reason(rung), [_question(each) for each in asked])


def _questions(gate: Gate) -> list[Question]:
    """The worst answers first."""
    order = {"fail": 0, "unknown": 1, "ok": 2}
    return [_question(each) for each in sorted(gate.checks, key=lambda check: order[check.outcome])]


def _question(check: GateCheck) -> Question:
    value, limit = ("" if x is None else f"{x:.3g}" for x in (check.value, check.limit))
    return Question(check.name.replace("_", " "), check.outcome, value, limit, check.sentence)


def lines(diff: str) -> list[Line]:
    """A unified diff line by line; what a line is follows from how it begins."""
    return [Line(_kind(text), _safe(text)) for text in diff.rstrip("\n").split("\n")] if diff else []


def _kind(text: str) -> str:
    if text.startswith(("--- ", "+++ ", "diff ", "index ")):
        return "file"
    return {"@": "hunk", "+": "added", "-": "removed"}.get(text[:1], "same")


def _safe(text: str) -> str:
    """One line of source without control characters; its indentation stays, folders of this machine go."""
    return _words.without_paths(_words.printable(text.expandtabs(4)))


def _spent(tuning: Tuning) -> list[tuple[str, str, float]]:
    """What the session was spent on: words, seconds, share of the longest in percent."""
    seen = [(name, value) for name, value in tuning.seconds_by.items() if 0 < value < 1e9]
    longest = max((value for _, value in seen), default=1.0)
    return [
        (words.SPENT.get(name, plain(name)), show(value, "s"), 100 * value / longest)
        for name, value in sorted(seen, key=lambda each: -each[1])
    ]


def _environment(run: Run) -> list[tuple[str, str]]:
    own = run.environment
    found = [("command", _words.command(run))] if run.command else []
    found += [("fingerprint", own.fingerprint), ("CPU", own.cpu), ("system", own.os), ("Python", own.python)]
    found += [(name, str(version)) for name, version in own.libraries.items()]
    return found + [(name, str(setting.value)) for name, setting in run.plan.items()]
