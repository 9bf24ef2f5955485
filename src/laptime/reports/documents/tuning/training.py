"""Whether the changed script still is the same training: the gate, and how well it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from laptime.kit.text import count
from laptime.records.tuning import Convergence, Gate, Tuning
from laptime.reports.document import Bar, Chart, Facts, Section
from laptime.reports.documents.tuning.ladder import doubts, question, questions
from laptime.reports.page.axes import frame
from laptime.reports.page.svg import drawing, line

NUMERICS = {
    "exact": "bit-identical results",
    "reassociated": "same maths, other rounding",
    "random": "same distribution, other random numbers",
    "precision": "lower precision",
    "algorithm": "another optimisation problem",
}
_ANSWERS = {"fail": "failed"}
_POINTS = 200


def section(tuning: Tuning) -> Section:
    """The gate with the questions that did not pass, all questions, and the curves of the loss."""
    gate, training = tuning.gate, tuning.convergence
    facts = [("gate", text)] if (text := gate_result(gate)) else []
    facts += [(_ANSWERS.get(check.outcome, check.outcome), question(check)) for check in doubts(gate)]
    facts += [("trains", text)] if (text := convergence(training)) else []
    chart = Chart(
        title=training.metric,
        note="one line for each seed",
        draw=partial(losses, training),
        legend=[Bar(name="as it is", kind="as-it-is"), Bar(name="with the changes", kind="final")],
    )
    charts = [chart] if training.word != "none" and _curves(training) else []
    return Section(
        id="same",
        title="The same training, as far as checked",
        blocks=[Facts(rows=facts), questions(gate, "questions"), *charts],
    )


def gate_result(gate: Gate, unit: str = "step") -> str:
    """`passed: 6 questions over 3 steps, class precision (lower precision)`; "" without a gate."""
    if gate.word == "none":
        return ""
    extent = f"{count(len(gate.checks), 'question')} over {count(gate.steps, unit)}"
    text = f"{gate.word}: {extent}, class {gate.numerics} ({NUMERICS[gate.numerics]})"
    is_repeated = gate.word == "passed" or any(check.sentence == gate.reason for check in gate.checks)
    return text if is_repeated or not gate.reason else f"{text}; {gate.reason}"


def convergence(training: Convergence) -> str:
    """Whether it trains as well, "" when that was not checked."""
    if training.word == "none":
        return ""
    is_short = training.smoke_test and "smoke test" not in training.sentence
    kind = " (a smoke test: the horizon is short)" if is_short else ""
    return f"{training.word}{kind}: {training.sentence}".removesuffix(": ")


def _curves(training: Convergence) -> list[tuple[str, list[tuple[float, float]]]]:
    """Class and points of every curve with two points or more, baseline first."""
    sides = [("c5", training.baseline), ("c0", training.final)]
    lines = [(colour, _thinned(curve)) for colour, curves in sides for curve in curves]
    return [(colour, points) for colour, points in lines if len(points) > 1]


def losses(training: Convergence, width: float) -> Markup:
    """A line for each seed, baseline and final; at least one curve needs two points."""
    curves = _curves(training)
    values = [value for _, points in curves for _, value in points]
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    place = frame(width, 260, top=16)
    x = place.x(1.0, max(at for _, points in curves for at, _ in points))
    y = place.y(low - margin, high + margin)
    paths = [
        line([(x(at), y(value)) for at, value in points], f"line thin {colour}") for colour, points in curves
    ]
    return drawing(
        width,
        place.height,
        place.left_axis(y, y.labels(place.up)),
        place.bottom_axis(x, x.labels(place.across), "step"),
        *paths,
        label="the compared metric over steps, one line for each seed",
    )


def _thinned(curve: Sequence[float]) -> list[tuple[float, float]]:
    every = max(1, len(curve) // _POINTS)
    points = [(at + 1.0, value) for at, value in enumerate(curve)][::every]
    return [(at, value) for at, value in points if math.isfinite(value) and abs(value) < 1e12]
