"""What stays on the screen while a session runs."""

from __future__ import annotations

from laptime.apps.cli.tuning import _lines
from laptime.records.event import GainMeasured, RungDecided
from laptime.records.tuning import Gate, Measured, Rung

PASSED = Gate(word="passed")


def line(rung: Rung) -> str:
    (text,) = _lines(RungDecided(rung), "")
    return text


def test_what_won_together_says_with_what() -> None:
    reason = "together with onnxruntime, see onnxruntime"
    rung = Rung(name="threads", verdict="faster", kept=True, gate=PASSED, reason=reason)
    assert line(rung) == f"threads: faster, gate passed, kept: {reason}"


def test_a_smaller_one_tells_its_memory_and_its_speed() -> None:
    rung = Rung(
        name="onnxruntime",
        verdict="smaller",
        memory=0.8,
        speedup=1.3,
        ci95=(1.2, 1.4),
        kept=True,
        gate=PASSED,
    )
    assert line(rung) == "onnxruntime: 0.80x the memory at 1.3x [1.2, 1.4] the speed, gate passed, kept"


def test_a_model_counts_items() -> None:
    before, after = (Measured(step=step, throughput=1 / step) for step in (0.1, 0.05))
    assert _lines(GainMeasured(before, after), "items") == ["measured afresh: 10.0 -> 20.0 items/s"]
    assert _lines(GainMeasured(before, after), "") == ["measured afresh: 10.0 -> 20.0 steps/s"]
