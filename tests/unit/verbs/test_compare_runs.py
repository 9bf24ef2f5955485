from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.compare import describe
from laptime.analysis.paired import Effect
from laptime.kit.errors import UsageError
from laptime.records.case import Failure
from laptime.records.run import Run
from laptime.verbs.compare import compare_runs

BARE = structs.replace(runs.environment(), virtual="")


def run_of(*levels: float, seed: int = 1, name: str = "b", target: str = runs.TARGET, **more: Any) -> Run:
    cases = [
        runs.case(runs.timings(level, seed=seed + i, spread=0.003), target=target, axes={"batch": 2**i})
        for i, level in enumerate(levels)
    ]
    return runs.run(*cases, id=name, **({"environment": BARE} | more))


def test_on_a_virtual_machine_runs_apart_in_time_need_a_factor() -> None:
    """Neighbours that the guest cannot see move whole runs by a factor of 1.4 and more."""
    guest = runs.environment()
    for level, word in ((0.015, "unclear"), (0.030, "slower")):
        slower = run_of(level, seed=5, environment=guest)
        (found,) = compare_runs(run_of(0.01, name="a", environment=guest), slower)
        assert found.word == word


def test_runs_are_compared_case_by_case() -> None:
    found = compare_runs(run_of(0.01, 0.02, name="a"), run_of(0.02, 0.01, seed=9))
    assert [each.word for each in found] == ["slower", "faster"]
    assert [each.baseline for each in found] == [each.candidate for each in found]
    assert found[0].speedup == pytest.approx(0.5, rel=0.02)
    assert found[0].ci95[0] < found[0].speedup < found[0].ci95[1]


def test_runs_apart_in_time_need_more_than_a_few_percent() -> None:
    """Nothing cancels the drift between them, so 3 % and 0 % are both unclear, and the way out is told."""
    for level in (0.01, 0.0103):
        (found,) = compare_runs(run_of(0.01, name="a"), run_of(level, seed=5))
        assert found.word == "unclear"
        assert "laptime bench" in found.sentence


def test_swapping_two_runs_turns_the_answer_round() -> None:
    a, b = run_of(0.01, name="a"), run_of(0.013, seed=4)
    (there,), (back,) = compare_runs(a, b), compare_runs(b, a)
    assert there.speedup * back.speedup == pytest.approx(1)
    assert (there.word, back.word) == ("slower", "faster")


def test_runs_of_other_conditions_are_not_compared_unasked() -> None:
    a, b = run_of(0.01, name="a"), run_of(0.02)
    changed = structs.replace(a.environment, libraries={**a.environment.libraries, "torch": "1.0"})
    b = structs.replace(b, environment=changed)
    with pytest.raises(UsageError) as caught:
        compare_runs(a, b)
    assert "torch" in caught.value.why
    assert "--force" in caught.value.next
    assert compare_runs(a, b, force=True)[0].word == "slower"


def test_other_targets_of_the_same_batch_are_compared() -> None:
    (found,) = compare_runs(run_of(0.01, name="a"), run_of(0.02, target="timm:resnet18"))
    assert found.baseline != found.candidate
    assert found.word == "slower"


def test_runs_without_a_common_case_are_refused() -> None:
    failed = runs.run(runs.failing(Failure(kind="died", what="x")), id="f", environment=BARE)
    with pytest.raises(UsageError, match="share no"):
        compare_runs(run_of(0.01, name="a"), failed)


def test_a_run_of_five_samples_is_compared_with_doubt() -> None:
    short = runs.run(runs.case(runs.timings(0.01, n=4, processes=1)), id="s", environment=BARE)
    (found,) = compare_runs(short, run_of(0.0105))
    assert found.word == "unclear"


def _repeated(deviation: float, *, number: int = 8) -> list[Run]:
    """Runs of another program on the virtual machine, an hour apart, that scatter by this share."""
    guest, dice = runs.environment(), np.random.default_rng(2)
    levels = 0.02 * np.exp(dice.normal(0, deviation, number))
    return [
        run_of(level, seed=hour, name=f"r{hour}", environment=guest, started=f"2026-11-01T{hour:02}:00:00Z")
        for hour, level in enumerate(levels)
    ]


def _on_guest(earlier: list[Run], level: float) -> str:
    guest: dict[str, Any] = {"environment": runs.environment(), "started": "2026-11-09T10:00:00Z"}
    a, b = run_of(0.01, name="a", **guest), run_of(level, seed=5, **guest)
    (found,) = compare_runs(a, b, earlier=earlier)
    return found.word


def test_a_machine_that_repeats_itself_tells_smaller_differences() -> None:
    assert _on_guest([], 0.012) == "unclear"
    assert _on_guest(_repeated(0.005), 0.012) == "slower"
    assert _on_guest(_repeated(0.005), 0.0102) == "unclear"


def test_a_machine_whose_runs_lie_apart_tells_none_of_them() -> None:
    assert _on_guest(_repeated(0.2), 0.015) == "unclear"


def test_few_runs_tell_nothing_of_what_lies_between_runs() -> None:
    assert _on_guest(_repeated(0.005, number=4), 0.012) == "unclear"


def test_runs_of_an_hour_tell_nothing_of_what_lies_between_days() -> None:
    guest: dict[str, Any] = {"environment": runs.environment()}
    a = run_of(0.01, name="a", started="2026-11-01T10:00:00Z", **guest)
    b = run_of(0.012, seed=5, started="2026-11-09T10:00:00Z", **guest)
    (found,) = compare_runs(a, b, earlier=_repeated(0.005))
    assert found.word == "unclear"


def test_a_run_is_not_compared_with_itself() -> None:
    run = run_of(0.01)
    with pytest.raises(UsageError, match="with itself"):
        compare_runs(run, run, force=True)


def test_the_interval_that_decides_stands_beside_one_that_would_have() -> None:
    sure = Effect(mean=0.06, error=0.02, df=40, rounds=9, processes=3)
    found = describe(runs.case(runs.timings(0.01)), runs.case(runs.timings(0.01)), "isolated", sure)
    assert found.word == "unclear"
    assert found.ci95[1] < 1 / 1.01
    assert "a word needs 99%, at which the interval is [0.89, 0.99" in found.sentence


def test_what_is_taken_for_granted_is_not_told_as_found() -> None:
    (found,) = compare_runs(run_of(0.01, name="a"), run_of(0.0103, seed=5))
    assert "lie 2.0%" in found.sentence
