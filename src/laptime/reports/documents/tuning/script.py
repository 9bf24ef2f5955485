"""The parts of a session that tuned a script: the patch, whether it trains the same, its step."""

import math
from collections.abc import Iterable, Sequence
from functools import partial

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.tuning import Convergence, Diagnosis, Suspect, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.tuning import ladder, words
from laptime.reports.documents.tuning.ladder import gate_facts, gate_result, questions
from laptime.reports.page.plot import Axis, Line, Plot

_SUGGESTED_LINES = 25
_POINTS = 200
PARTS = {
    "data": "waiting for data",
    "transfer": "copy to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
COLOURS = {name: name if name in ("transfer", "other") else f"phase-{name}" for name in PARTS}
_MOST_SYNCS = 3


def brief(tuning: Tuning) -> list[tuple[str, str]]:
    """The gate, the patch, and what is only suggested."""
    rows = [row for row in facts(tuning) if row[0] in ("patch", "run it as", "left out")]
    ready = ", ".join(words.change(rung) for rung in tuning.ladder if rung.verdict == "suggested")
    suggested = f"{ready}: a diff, not applied" if ready else ""
    return [("gate", gate_result(tuning.gate)), *rows, ("suggested", suggested)]


def sections(tuning: Tuning) -> list[doc.Section]:
    """The patch, the gate, the ladder, what bounds the step, and what is only suggested."""
    return [patch(tuning), sameness(tuning), ladder.section(tuning), limits(tuning), show_suggested(tuning)]


def patch(tuning: Tuning) -> doc.Section:
    """The patch, what is not in it, and what its trial run gave."""
    diff = doc.Code(tuning.patch.text, language="diff", detail="folded")
    return doc.Section("patch", "The patch", [doc.Facts(facts(tuning)), diff])


def show_suggested(tuning: Tuning) -> doc.Section:
    """The diff of what is never applied on its own; it grows from rung to rung."""
    diffs = [rung.suggestion for rung in tuning.ladder if "@@" in rung.suggestion]
    text = tuning.patch.suggestions or (diffs[-1] if diffs else "")
    return doc.Section(
        "suggested",
        "Suggested, not applied",
        [doc.Folded("The diff", [doc.Code(text, language="diff", brief=_SUGGESTED_LINES)])],
        note="Never applied on its own, and not in the patch: only you can decide whether it is right.",
        folded=True,
    )


def facts(tuning: Tuning) -> list[tuple[str, str]]:
    """Where the patch and the recipe are, what they contain, and what became of them when tried out."""
    made = tuning.patch
    hunks = f"{made.path}: {count(len(made.hunks), 'change')}: {', '.join(made.hunks)}"
    has_run = made.speedup is not None or made.same_losses is not None
    changes = ", ".join(map(words.change, tuning.recipe))
    place = f"{tuning.recipe_path}: " if tuning.recipe_path else ""
    return [
        ("patch", hunks if made.path else ""),
        ("run it as", made.command),
        *(("left out", f"{name}: {why}") for name, why in made.left_out.items()),
        ("verified" if made.applies and has_run else "tried out", "; ".join(_trial_run(tuning))),
        ("recipe", place + changes if tuning.recipe else ""),
    ]


def _trial_run(tuning: Tuning) -> list[str]:
    patch, results = tuning.patch, []
    if patch.applies is not None:
        results.append("git apply --check " + ("accepts it" if patch.applies else "refuses it"))
    if patch.speedup is not None:
        whole = tuning.speedup
        # The gain is that of the patched script if every change is in the patch.
        is_gain = whole is not None and bool(whole.ratios) and whole.ratios == patch.speedup.ratios
        speed = f"the patched script, without hooks, is {words.speedup(patch.speedup)}"
        results.append("the gain above is that of the patched script, without hooks" if is_gain else speed)
    if patch.same_losses is not None:
        losses = "the recipe's losses" if patch.same_losses else "other losses than the recipe"
        results.append(f"it gives {losses}")
    if patch.sentence and (patch.speedup is None or not patch.path):
        results.append(patch.sentence)
    return results or (["not tried out"] if patch.path else [])


def sameness(tuning: Tuning) -> doc.Section:
    """The gate with the questions that did not pass, all questions, and the curves of the loss."""
    gate, training = tuning.gate, tuning.convergence
    facts = doc.Facts([*gate_facts(gate), ("trains", convergence(training))])
    chart = doc.Chart(training.metric, partial(_losses, training), note="one line for each seed")
    charts = [chart] if training.word != "none" and _curves(training) else []
    blocks = [facts, questions(gate, "questions"), *charts]
    return doc.Section("same", "The same training, as far as checked", blocks)


def convergence(training: Convergence) -> str:
    """Whether it trains as well, "" when that was not checked."""
    if training.word == "none":
        return ""
    is_short = training.smoke_test and "smoke test" not in training.sentence
    kind = " (a smoke test: the horizon is short)" if is_short else ""
    return f"{training.word}{kind}: {training.sentence}".removesuffix(": ")


def _curves(training: Convergence) -> list[Line]:
    """Every curve with two points or more, baseline first; each side has one name."""
    sides = [
        ("as it is", "line thin c5", training.baseline),
        ("with the changes", "line thin c0", training.final),
    ]
    lines = [Line(_thin(curve), class_, name) for name, class_, curves in sides for curve in curves]
    return [line for line in lines if len(line.points) > 1]


def _losses(training: Convergence) -> Plot:
    curves = _curves(training)
    values = [value for line in curves for _, value in line.points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Plot(
        label="the compared metric over steps, one line for each seed",
        x=Axis(1.0, max(at for line in curves for at, _ in line.points), "step"),
        y=Axis(low - margin, high + margin),
        marks=curves,
        height=260,
        margins={"top": 16},
    )


def _thin(curve: Sequence[float]) -> list[tuple[float, float]]:
    every = max(1, len(curve) // _POINTS)
    points = [(index + 1.0, value) for index, value in enumerate(curve)][::every]
    return [(at, value) for at, value in points if math.isfinite(value) and abs(value) < 1e12]


def limits(tuning: Tuning) -> doc.Section:
    """The bound in words, the parts of the step as bars and as numbers."""
    before, after = (side.shares if side else {} for side in (tuning.before, tuning.after))
    bars = bands(before, after, "By leaving parts out", "shares of a step without a profiler")
    numbers = doc.Folded("The parts as numbers", [parts(tuning)])
    blocks = [doc.Facts(bounds(tuning)), doc.Panels([bars], detail="page"), numbers]
    return doc.Section("bound", "What bounds the step", blocks)


def bounds(tuning: Tuning) -> list[tuple[str, str]]:
    """List the bounds of the step before and after, what could save time, and where the script waits."""
    before, after = tuning.before, tuning.after
    rows = [(when, _bound(side)) for when, side in (("before", before), ("after", after)) if side]
    if before is None:
        return rows
    if before.suspects:
        rows.append(("suspects", "; ".join(_suspect(suspect, before.step) for suspect in before.suspects)))
    for sync in before.syncs[:_MOST_SYNCS]:
        what, place = (sync.get(key, "") for key in ("what", "where"))
        times = sync.get("count")
        often = f", {times:g} a step" if isinstance(times, int | float) else ""
        rows.append(("waits", f"{what} at {place}{often}"))
    notes = dict.fromkeys([*before.notes, *(after.notes if after else [])])
    return rows + [("note", note) for note in notes]


def _suspect(suspect: Suspect, step: float) -> str:
    share = f", {_words.percent(suspect.saves / step)}" if step > 0 else ""
    text = f"{suspect.label} could save {show(suspect.saves, 's')} of a step{share}"
    return f"{text} (only ever suggested)" if suspect.suggests else text


def _bound(diagnosis: Diagnosis) -> str:
    text = f"{diagnosis.bound or 'unknown'}: {diagnosis.sentence}".removesuffix(": ")
    if (step := show(diagnosis.step, "s")) not in text:
        text += f"; step {step}"
    if diagnosis.utilization is not None:
        text += f", device busy {_words.percent(diagnosis.utilization)}"
    return text


def parts(tuning: Tuning) -> doc.Table:
    """Seconds and shares of the parts of a step, in its order; no rows if nothing was diagnosed."""
    sides = [side for side in (tuning.before, tuning.after) if side] if tuning.before else []
    names = {name: None for side in sides for name, seconds in side.shares.items() if seconds}
    columns = [doc.Column("part of a step", "text")]
    for title, share in (("before", "share"), ("after", "share after"))[: len(sides)]:
        columns += [doc.Column(title, "number"), doc.Column(share, "share", bar=True)]
    rows = [
        doc.Row([part(name), *(cell for side in sides for cell in _cells(side, name))])
        for name in _order(names)
    ]
    return doc.Table("parts", columns, rows)


def _cells(diagnosis: Diagnosis, name: str) -> list[doc.Cell | float]:
    seconds = diagnosis.shares.get(name, 0.0)
    share = seconds / diagnosis.step if diagnosis.step > 0 else 0.0
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return [doc.Cell(show(seconds, "s"), seconds), share]


def bands(before: dict[str, float], after: dict[str, float], title: str, note: str) -> doc.Bars:
    """A bar of parts for the step before and one for the step after; none without a step before."""
    sides = [
        (name, {part: value for part, value in side.items() if 0 < value < 1e12})
        for name, side in (("before", before), ("after", after))
    ]
    rows = [
        doc.Bar(name, sum(side.values()), show(sum(side.values()), "s"), parts=_colour(side))
        for name, side in sides
        if side and sides[0][1]
    ]
    colours = {piece.name: piece.kind for row in rows for piece in row.parts}
    legend = [doc.Bar(name, kind=kind) for name, kind in colours.items()]
    return doc.Bars(rows, title=title, note=note, legend=legend)


def _colour(side: dict[str, float]) -> list[doc.Bar]:
    bars = [(name, side[name], COLOURS.get(name, "annotation")) for name in _order(side)]
    return [
        doc.Bar(part(name), value, show(value, "s"), share=value / sum(side.values()), kind=colour)
        for name, value, colour in bars
    ]


def _order(names: Iterable[str]) -> list[str]:
    order = {name: index for index, name in enumerate(COLOURS)}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def part(name: str) -> str:
    """A part of a step in words."""
    return PARTS.get(name, name)
