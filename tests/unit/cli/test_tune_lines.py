"""What stays on the screen while a session runs."""

from __future__ import annotations

from msgspec import structs

from laptime.apps.cli.progress import Lines
from laptime.records.event import GainMeasured, RungDecided
from laptime.records.tuning import Gate, Measured, Rung

PASSED = Gate(word="passed")


def line(rung: Rung) -> str:
    (text,) = Lines()(RungDecided(rung))
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
    assert Lines("items")(GainMeasured(before, after)) == ["measured again: 10.0 -> 20.0 items/s"]
    assert Lines()(GainMeasured(before, after)) == ["measured again: 10.0 -> 20.0 steps/s"]


def test_a_kept_rung_is_printed_once_and_again_only_when_it_goes() -> None:
    lines = Lines()
    kept = Rung(name="threads", verdict="faster", speedup=1.3, ci95=(1.2, 1.4), kept=True, gate=PASSED)
    assert lines(RungDecided(kept)) == ["threads: 1.3x [1.2, 1.4] faster, gate passed, kept"]
    left = structs.replace(kept, reason="worth 1.2x when it alone is left out of the final set")
    assert lines(RungDecided(left)) == []
    (line,) = lines(RungDecided(structs.replace(kept, kept=False, dropped=True, reason="nothing is lost")))
    assert line == "threads: 1.3x [1.2, 1.4] faster, gate passed, dropped: nothing is lost"
    again = structs.replace(kept, ratios=[0.5])  # another race of the same change
    assert len(lines(RungDecided(again))) == 1
