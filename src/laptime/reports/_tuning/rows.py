"""What a session shows as rows: where a step's time goes before and after, the ladder, the gates."""

from __future__ import annotations

import math
import shlex
from typing import NamedTuple

from laptime.analysis import tuned
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.records.tuning import Diagnosis, Gate, GateCheck, Rung, Suspect, Tuning
from laptime.reports import _words
from laptime.reports._profile.tables import Table
from laptime.reports._tuning import words

Fact = tuple[str, str]

_SYNCS = 3
_ORDER = {name: at for at, name in enumerate(words.PARTS)}


class Share(NamedTuple):
    """A part of a step before and after: seconds and share of its own step; None where there is no after."""

    name: str
    words: str
    before: float
    before_share: float
    after: float | None
    after_share: float | None


def shares(tuning: Tuning) -> list[Share]:
    """Parts of the diagnosed steps, in the order of a step."""
    before, after = tuning.before, tuning.after
    if before is None:
        return []
    own, later = before.shares, after.shares if after else {}
    some = [name for name in {**own, **later} if own.get(name) or later.get(name)]
    names = sorted(some, key=lambda name: _ORDER.get(name, len(_ORDER)))
    return [
        Share(
            name,
            words.part(name),
            own.get(name, 0.0),
            _part(own.get(name, 0.0), before.step),
            later.get(name, 0.0) if after else None,
            _part(later.get(name, 0.0), after.step) if after else None,
        )
        for name in names
    ]


def _part(seconds: float, whole: float) -> float:
    found = seconds / whole if whole > 0 else 0.0
    return min(max(found, 0.0), 1.0) if math.isfinite(found) else 0.0


def parted(tuning: Tuning) -> Table:
    """The same as texts, for those who read rather than look; no rows where nothing was diagnosed."""
    seen, made = shares(tuning), []
    both = bool(seen) and seen[0].after is not None
    for each in seen:
        row = [each.words, show(each.before, "s"), _words.percent(each.before_share)]
        later = [show(each.after, "s"), _words.percent(each.after_share or 0.0)] if both else []
        made.append([*row, *later])
    columns = ["part of a step", "before", "share", *(["after", "share after"] if both else [])]
    return Table(title="step", columns=columns, rows=made, left=["part of a step"], all=len(made))


def bounds(tuning: Tuning) -> list[Fact]:
    """What bounds the step, before and after, and what was found on the way."""
    found = [(when, _bound(own)) for when, own in (("before", tuning.before), ("after", tuning.after)) if own]
    own = tuning.before
    if own is None:
        return found
    if own.suspects:
        found.append(("suspects", "; ".join(_suspect(each, own.step) for each in own.suspects)))
    for sync in own.syncs[:_SYNCS]:
        what, place = (_words.printable(sync.get(key, "")) for key in ("what", "where"))
        times = sync.get("count")
        often = f", {times:g} a step" if isinstance(times, int | float) else ""
        found.append(("waits", f"{what} at {place}{often}"))
    later = tuning.after.notes if tuning.after else []
    notes = [*own.notes, *(note for note in later if note not in own.notes)]
    return found + [("note", _words.printable(note)) for note in notes]


def _suspect(own: Suspect, step: float) -> str:
    share = f", {_words.percent(own.saves / step)}" if step > 0 else ""
    told = f"{_words.printable(own.label)} could save {show(own.saves, 's')} of a step{share}"
    return f"{told} (only ever suggested)" if own.suggests else told


def _bound(own: Diagnosis) -> str:
    told = f"{own.bound or 'nothing known'}: {_words.printable(own.sentence)}".removesuffix(": ")
    if (step := show(own.step, "s")) not in told:
        told += f"; step {step}"
    if own.utilization is not None:
        told += f", device busy {_words.percent(own.utilization)}"
    return told


def ladder(tuning: Tuning, *, intervals: bool = True) -> tuple[Table, list[Rung]]:
    """The rungs that were tried, one row each, columns nobody filled left out; and the rungs themselves."""
    seen = tuned.tried(tuning)
    memory = tuning.goal == "memory"
    effects = [words.effect(r.speedup, r.ci95 if intervals else None) for r in seen]
    columns: list[tuple[str, list[str]]] = [("change", [words.label(r) for r in seen])]
    if memory:
        columns.append(("memory", [words.ratio(r.memory) for r in seen]))
    columns += [
        ("speed" if memory else "effect", effects),
        ("word", [r.verdict for r in seen]),
        ("kept", [words.kept(r) for r in seen]),
        ("gate", [words.gate(r) for r in seen]),
        ("samples/s", [words.per_second(r.throughput) for r in seen]),
        ("step", [show(r.step, "s") for r in seen]),
        ("device", [_words.percent(r.utilization) if r.utilization is not None else "-" for r in seen]),
        ("compiling", [show(r.compile_seconds, "s") if r.compile_seconds else "-" for r in seen]),
    ]
    shown = [(title, cells) for title, cells in columns if any(cell not in ("", "-") for cell in cells)]
    table = Table(
        title="ladder",
        columns=[title for title, _ in shown],
        rows=[list(row) for row in zip(*(cells for _, cells in shown), strict=True)],
        left=["word", "gate", "kept"],
        all=len(seen),
    )
    return table, seen


def control(tuning: Tuning) -> str:
    """The control's line, "" when it was not run."""
    race = tuned.control(tuning)
    if race is None:
        return ""
    effect = f"{words.effect(race.speedup, race.ci95)} " if race.speedup is not None else ""
    told = f"identity, which changes nothing: {effect}{race.verdict}"
    return f"{told}, {count(race.rounds, 'round')}"


def untried(tuning: Tuning) -> list[Fact]:
    """Suggested and not tried ones with their reasons; those that share one are named together."""
    found: dict[Fact, list[str]] = {}
    for verdict in ("suggested", "not tried"):
        for rung in tuning.ladder:
            if rung.verdict == verdict and rung.name != tuned.CONTROL:
                found.setdefault((verdict, _why(rung, tuning)), []).append(words.label(rung))
    return [
        (verdict, f"{', '.join(labels)}: {why}".removesuffix(": "))
        for (verdict, why), labels in found.items()
    ]


def _why(rung: Rung, tuning: Tuning) -> str:
    """The reason; in a dry run also what it could save, and what trying it would take."""
    told = [words.reason(rung)] if words.reason(rung) else []
    if tuning.ended != tuned.DRY:
        return "".join(told)
    if rung.seconds and not told:
        told.append(f"takes about {show(rung.seconds, 's')}")
    if rung.bound is not None:
        told.append(f"saves {show(rung.bound, 's')} a step at most")
    return ", ".join(told)


def gated(gate: Gate) -> str:
    """`passed: 6 questions over 3 steps, class precision (lower precision)`."""
    if gate.word == "none":
        return ""
    asked = f"{count(len(gate.checks), 'question')} over {count(gate.steps, 'step')}"
    told = f"{gate.word}: {asked}, class {gate.numerics} ({words.NUMERICS[gate.numerics]})"
    is_said = gate.word == "passed" or any(check.sentence == gate.reason for check in gate.checks)
    why = "" if is_said else gate.reason
    return told + (f"; {_words.printable(why)}" if why else "")


def doubts(gate: Gate) -> list[GateCheck]:
    """Questions that were not answered with ok."""
    return [check for check in gate.checks if check.outcome != "ok"]


def asked(check: GateCheck) -> str:
    """A question with its sentence."""
    name = _words.printable(check.name).replace("_", " ")
    said = _words.printable(check.sentence)
    return said if said.startswith(name) else f"{name}: {said}".removesuffix(": ")


def convergence(tuning: Tuning) -> str:
    """Whether it trains as well, "" when nobody asked."""
    own = tuning.convergence
    if own.word == "none":
        return ""
    is_short = own.smoke_test and "smoke test" not in own.sentence
    kind = " (a smoke test: the horizon is short)" if is_short else ""
    return f"{own.word}{kind}: {_words.printable(own.sentence)}".removesuffix(": ")


def suggestions(tuning: Tuning) -> str:
    """The diff of what is only suggested, "" when there is none; it grows from rung to rung."""
    diffs = [rung.suggestion for rung in tuning.ladder if "@@" in rung.suggestion]
    return tuning.patch.suggestions or (diffs[-1] if diffs else "")


def patch(tuning: Tuning) -> list[Fact]:
    """The patch, what is not in it, and what became of it when it was tried out."""
    own = tuning.patch
    found: list[Fact] = []
    if own.path:
        hunks = ", ".join(map(_words.printable, own.hunks))
        found.append(("patch", f"{_words.printable(own.path)}: {count(len(own.hunks), 'change')}: {hunks}"))
    found += [("left out", f"{_words.printable(n)}: {_words.printable(w)}") for n, w in own.left_out.items()]
    if told := words.verified(tuning):
        found.append(("verified" if own.applies else "tried out", "; ".join(told)))
    if tuning.recipe:
        named = ", ".join(words.change(each) for each in tuning.recipe)
        place = f"{_words.printable(tuning.recipe_path)}: " if tuning.recipe_path else ""
        found.append(("recipe", place + named))
    return found


def _again(run: Run, *more: str) -> str:
    """The line as it was typed, with these options before all others and without --dry-run."""
    # Options of laptime itself may stand before the verb: `laptime -q tune train.py`.
    is_typed = run.command[:1] == ["laptime"] and run.verb in run.command
    typed = run.command[run.command.index(run.verb) + 1 :] if is_typed else []
    script = [subject.target for subject in run.subjects[:1]] or ["SCRIPT.py"]
    rest: list[str] = []
    for before, word in zip(["", *typed], typed, strict=False):
        replaced = "--budget" in more and (before == "--budget" or word.partition("=")[0] == "--budget")
        if word not in ("--dry-run", *more) and not replaced:
            rest.append(word)
    return _words.printable(shlex.join(["laptime", "tune", *more, *(rest or script)]))


def next_steps(run: Run) -> list[str]:
    """What to type next."""
    tuning = run.tuning
    assert tuning is not None
    outcome = tuned.outcome(run)
    if outcome == "dry run":
        return [_again(run)]
    if outcome == "interrupted" and run.verb == "tune":
        return [_again(run, "--resume")]
    if (
        outcome in ("gate undecided", "unclear", "not measured")
        and run.verb == "tune"
        and math.isfinite(tuning.budget)
    ):
        return [_again(run, "--resume", "--budget", f"{max(2 * tuning.budget, 60.0):.0f}s")]
    found = []
    if outcome in ("faster", "smaller"):
        if tuning.patch.path:
            found.append(f"git apply {_words.printable(tuning.patch.path)}")
        if tuning.recipe_path:
            found.append(f"laptime verify {_words.printable(tuning.recipe_path)}")
    return found
