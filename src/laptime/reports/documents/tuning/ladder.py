"""The ladder of a tuning session: every change that was tried, and why the others were not."""

import math
from functools import partial
from typing import Any

from laptime.analysis import tuned
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.quantity import KEPT, WORST_FIRST
from laptime.records.tuning import Gate, GateCheck, Rung, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.tuning import words
from laptime.reports.fields import Field, tabulate, tell

_RULED_OUT = 4
NUMERICS = {
    "exact": "bit-identical results",
    "reassociated": "same maths, other rounding",
    "random": "same distribution, other random numbers",
    "precision": "lower precision",
    "algorithm": "another optimisation problem",
}
_LEGEND = {"held": "what was reached before", "won": "gained and kept", "lost": "not kept"}


def section(tuning: Tuning) -> doc.Section:
    """The effects as stairs, the rungs with their reasons, what was not tried and what was ruled out."""
    ruled_out = list(tuning.ruled_out.items())
    more = len(ruled_out) - _RULED_OUT
    first = ", ".join(f"{name} ({why})" for name, why in ruled_out[:_RULED_OUT])
    left = [*list_untried(tuning), ("ruled out", f"{first} and {more} more: --json" if more > 0 else first)]
    title = f"{count(len(ruled_out), 'optimization')} ruled out before racing"
    return doc.Section(
        "ladder",
        "The ladder",
        [
            stairs(tuning),
            ladder(tuning),
            doc.Facts([("control", control(tuning))]),
            doc.Folded("Not tried", [doc.Facts(left)], open=tuning.ended == tuned.DRY),
            doc.Folded(title, [doc.Facts(ruled_out if more > 0 else [])], detail="folded"),
        ],
    )


def ladder(tuning: Tuning) -> doc.Table:
    """The changes that were tried, one row each; columns without any value are left out."""
    rungs, said = tuned.list_tried(tuning), _fields(tuning)
    shown = (field for field in said if any(field.of(rung).text not in ("", "-") for rung in rungs))

    def row(rung: Rung) -> dict[str, Any]:
        """Return why it was kept or not; of a gate that did not pass, the questions that say so."""
        notes, extras = [words.reason(rung)] if words.reason(rung) else [], []
        if rung.gate.word in ("failed", "undecided"):
            notes += map(question, doubts(rung.gate))
            table = questions(rung.gate, f"gate{rungs.index(rung)}")
            extras = [doc.Extra(caption="what the gate found", table=table)]
        return {"tone": "strong" if is_kept(rung) else "weak", "notes": notes, "extras": extras}

    return tabulate("rungs", shown, rungs, row=row)


def _fields(tuning: Tuning) -> list[Field]:
    memory, seconds = tuning.goal == "memory", partial(show, unit="s")
    busy = "share of the step that the device works"
    return [
        Field("change", lambda rung: doc.Cell(words.change(rung))),
        Field("memory", lambda rung: tell(rung.memory if memory else None, words.ratio), "number"),
        Field("speed" if memory else "effect", lambda rung: _effect(rung, 0), "number"),
        Field("95 % interval", lambda rung: _effect(rung, 1), "number", priority=3),
        Field("word", lambda rung: doc.Cell(rung.verdict, tone=rung.verdict)),
        Field("kept", lambda rung: doc.Cell(_say_kept(rung))),
        Field("gate", _gate),
        Field("device", lambda rung: tell(rung.utilization, _words.percent), "number", busy, priority=4),
        Field(
            "compiling", lambda rung: tell(rung.compile_seconds or None, seconds), "number", detail="folded"
        ),
    ]


def _effect(rung: Rung, part: int) -> doc.Cell:
    text = words.effect_parts(rung.speedup, rung.ci95)[part]
    return doc.Cell(text, None if part else rung.speedup)


def is_kept(rung: Rung) -> bool:
    """It is in the final set."""
    return rung.kept and not rung.dropped


def _say_kept(rung: Rung) -> str:
    return "dropped" if rung.dropped else "replaced" if rung.replaced else "yes" if rung.kept else "no"


def _gate(rung: Rung) -> doc.Cell:
    word = rung.gate.word
    return doc.Cell("" if word == "none" else word, tone="" if word == "passed" else word)


def questions(gate: Gate, id: str) -> doc.Table:
    """Every question of a gate, the worst answers first."""
    checks = sorted(gate.checks, key=lambda check: WORST_FIRST.index(check.outcome))
    fields = [
        Field("question", lambda check: check.name.replace("_", " ")),
        Field("answer", lambda check: doc.Cell(check.outcome, tone=check.outcome)),
        Field("value", lambda check: _figure(check.value), "number"),
        Field("limit", lambda check: _figure(check.limit), "number"),
        Field("in words", "sentence"),
    ]
    return tabulate(id, fields, checks, detail="folded")


def _figure(number: float | None) -> doc.Cell:
    return doc.Cell("" if number is None else f"{number:.3g}", number)


def gate_result(gate: Gate, unit: str = "step") -> str:
    """`passed: 6 questions over 3 steps, class precision (lower precision)`; "" without a gate."""
    if gate.word == "none":
        return ""
    extent = f"{count(len(gate.checks), 'question')} over {count(gate.steps, unit)}"
    text = f"{gate.word}: {extent}, class {gate.numerics} ({NUMERICS[gate.numerics]})"
    is_repeated = gate.word == "passed" or any(check.sentence == gate.reason for check in gate.checks)
    return text if is_repeated or not gate.reason else f"{text}; {gate.reason}"


def gate_facts(gate: Gate, unit: str = "step") -> list[tuple[str, str]]:
    """The gate in a line, and each question whose answer is not kept."""
    return [("gate", gate_result(gate, unit)), *((check.outcome, question(check)) for check in doubts(gate))]


def doubts(gate: Gate) -> list[GateCheck]:
    """Questions whose answer is not kept."""
    return [check for check in gate.checks if check.outcome is not KEPT]


def question(check: GateCheck) -> str:
    """A question with its sentence."""
    name = check.name.replace("_", " ")
    sentence = check.sentence
    return sentence if sentence.startswith(name) else f"{name}: {sentence}".removesuffix(": ")


def control(tuning: Tuning) -> str:
    """The race of the script against itself, "" when it was not run."""
    race = tuned.control(tuning)
    if race is None:
        return ""
    effect = f"{words.effect(race.speedup, race.ci95)} " if race.speedup is not None else ""
    return f"identity, which changes nothing: {effect}{race.verdict}, {count(race.rounds, 'round')}"


def list_untried(tuning: Tuning) -> list[tuple[str, str]]:
    """Changes that were only suggested or not tried; those with the same reason stand together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for verdict in ("suggested", "not tried"):
        for rung in tuning.ladder:
            if rung.verdict == verdict and rung.name != tuned.CONTROL:
                groups.setdefault((verdict, _why(rung, tuning)), []).append(words.change(rung))
    reasons = ((word, f"{', '.join(names)}: {why}") for (word, why), names in groups.items())
    return [(word, text.removesuffix(": ")) for word, text in reasons]


def _why(rung: Rung, tuning: Tuning) -> str:
    """The reason; in a dry run also what it could save, and how long trying it takes."""
    reason = words.reason(rung)
    if tuning.ended != tuned.DRY:
        return reason
    parts = [reason] if reason else [f"takes about {show(rung.seconds, 's')}"] if rung.seconds else []
    if rung.bound is not None:
        parts.append(f"saves {show(rung.bound, 's')} a {words.kind(tuning).unit} at most")
    return ", ".join(parts)


def stairs(tuning: Tuning) -> doc.Bars:
    """The script as it is, each raced change on top of those kept before it, and the whole measured again.

    Lengths are in times the speed of the script as it is; the numbers are each change's own effect: their
    product is no second answer to what was gained."""
    rungs = [r for r in tuned.list_tried(tuning) if _is_sound(r.speedup) and tuning.goal != "memory"]
    level = 1.0
    rows: list[doc.Bar] = []

    def add(name: str, before: float, effect: float, ci95: words.Interval, kind: str, note: str = "") -> None:
        after = before * effect
        moved = "won" if after >= before and kind != "left" else "lost"
        text = words.ratio(effect)
        lengths = {"held": min(before, after), moved: abs(after - before)}
        parts = [
            doc.Bar(_LEGEND[each], value, text if each == moved else "", kind=each)
            for each, value in lengths.items()
            if value
        ]
        rows.append(
            doc.Bar(name, after, text, parts=parts, interval=_ends(before, ci95), kind=kind, note=note)
        )

    if rungs:
        add("as it is", level, 1.0, None, "")
    for rung in rungs:
        busy = f", device busy {_words.percent(rung.utilization)}" if rung.utilization is not None else ""
        note = f"{words.effect(rung.speedup, rung.ci95)} {rung.verdict}{busy}"
        add(words.change(rung), level, rung.speedup or 1.0, rung.ci95, "" if is_kept(rung) else "left", note)
        level = rows[-1].value if is_kept(rung) or rung.replaced else level
    if rungs and tuning.speedup is not None and _is_sound(tuning.speedup.value):
        add("measured again", 1.0, tuning.speedup.value, tuning.speedup.ci95, "total")
    return doc.Bars(
        rows,
        title="What each change did",
        note="times the speed, each effect on top of what was reached before, in the order of trying; "
        "thin lines are 95 % intervals",
        legend=[doc.Bar(text, kind=kind) for kind, text in _LEGEND.items()],
        detail="page",
    )


def _is_sound(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and 0 < value < 1e12


def _ends(level: float, ci95: words.Interval) -> words.Interval:
    if ci95 is None or not all(map(_is_sound, ci95)):
        return None
    return level * min(ci95), level * max(ci95)
