"""Whether the changed script still is the same training: the gate, and how well it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from laptime.kit.text import count
from laptime.records.tuning import Convergence, Gate, Tuning
from laptime.reports.document import Chart, Facts, Section
from laptime.reports.documents.tuning.ladder import doubts, question, questions
from laptime.reports.page.plot import Axis, Line, Plot

NUMERICS = {
    "exact": "bit-identical results",
    "reassociated": "same maths, other rounding",
    "random": "same distribution, other random numbers",
    "precision": "lower precision",
    "algorithm": "another optimisation problem",
}
_POINTS = 200


def section(tuning: Tuning) -> Section:
    """The gate with the questions that did not pass, all questions, and the curves of the loss."""
    gate, training = tuning.gate, tuning.convergence
    facts = [("gate", text)] if (text := gate_result(gate)) else []
    facts += [(check.outcome, question(check)) for check in doubts(gate)]
    facts += [("trains", text)] if (text := convergence(training)) else []
    chart = Chart(
        title=training.metric,
        note="one line for each seed",
        plot=partial(_losses, training),
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


def _curves(training: Convergence) -> list[Line]:
    """Every curve with two points or more, baseline first; each side has one name."""
    sides = [
        ("as it is", "line thin c5", training.baseline),
        ("with the changes", "line thin c0", training.final),
    ]
    lines = [Line(_thinned(curve), class_, name) for name, class_, curves in sides for curve in curves]
    return [line for line in lines if len(line.points) > 1]


def _losses(training: Convergence) -> Plot:
    """A line for each seed, baseline and final; at least one curve needs two points."""
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


def _thinned(curve: Sequence[float]) -> list[tuple[float, float]]:
    every = max(1, len(curve) // _POINTS)
    points = [(at + 1.0, value) for at, value in enumerate(curve)][::every]
    return [(at, value) for at, value in points if math.isfinite(value) and abs(value) < 1e12]
