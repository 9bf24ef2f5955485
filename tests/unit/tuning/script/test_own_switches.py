"""Changes that are left to the script's own switches, lines that are mended: by trials that are played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import tunings
from fixtures.played_trials import PlayedRunner, evaluating
from laptime.launch.script import Program
from laptime.records.run import Subject
from laptime.records.tuning import Gate
from laptime.reports.documents.tuning.headline import next_steps
from laptime.reports.formats import text
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script.gate_runner import GateRunner
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.trial.messages import TrialPlan, TrialResult

AMP, LAST = Change("bf16_autocast"), Change("channels_last")
SOURCE = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
x.numpy()
"""


class Script(PlayedRunner):
    """A script whose trials with a change fail unless `lets`, and whose others have these effects."""

    def __init__(
        self, folder: Path, lets: Callable[[TrialPlan], bool], error: str = "", effects: tuple[str, ...] = ()
    ) -> None:
        super().__init__(folder)
        path = folder / "train.py"
        path.write_text(SOURCE)
        self.program = Program(["train.py"], Subject(target="train.py", source=str(path)), "python")
        frame = f'  File "{path}", line 4, in <module>\n    x.numpy()\n'
        self._error = TrialResult(
            ended="raised", status=1, error=error, source="optimizer", torch=True, traceback=frame
        )
        self._lets, self._effects = lets, list(effects)

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Any]:
        names = [each["name"] for part in (plan.base, *plan.arms) for each in part]
        self.fails = {} if self._lets(plan) else dict.fromkeys(names, self._error)
        with super().run(plan) as trial:
            if not self.fails:
                trial.result.effects = self._effects
            yield trial


def arguments(plan: TrialPlan) -> list[str]:
    return [word for each in plan.base for word in each["options"].get("arguments", ())]


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Recipes that came to a gate, which passes all of them."""
    found: list[Recipe] = []

    def gate(self: GateRunner, recipe: Recipe, numerics: str) -> Gate:
        found.append(recipe)
        return Gate(word="passed")

    monkeypatch.setattr(GateRunner, "gate", gate)
    return found


def raced(evaluator: TrialEvaluator, *changes: Change) -> list[float]:
    rounds: Any = evaluator.race(Recipe(), Recipe(changes))
    found = [next(rounds).ratio for _ in range(2)]
    rounds.close()
    return found


def test_what_crashes_where_it_is_attached_is_left_to_the_scripts_own_switch(
    tmp_path: Path, gated: list[Recipe]
) -> None:
    def lets(plan: TrialPlan) -> bool:
        return not plan.arms[-1] and (not plan.base or arguments(plan) == ["--amp"])

    runner = Script(tmp_path, lets, "ValueError: no")
    evaluator = evaluating(runner)
    assert raced(evaluator, AMP) == pytest.approx([0.5, 0.5])
    evaluator.gate(Recipe(), Recipe((AMP,)), "precision")
    assert gated == [Recipe((Change("bf16_autocast", {"arguments": ["--amp"]}),))]


def test_what_crashes_and_has_no_switch_has_failed(tmp_path: Path) -> None:
    runner = Script(tmp_path, lambda plan: not plan.arms[-1] and not plan.base, "ValueError: no")
    with pytest.raises(TrialFailed, match="ValueError: no"):
        raced(evaluating(runner), LAST)


def test_a_line_that_crashes_is_mended_in_trials_of_the_change_alone(tmp_path: Path) -> None:
    runner = Script(
        tmp_path, lambda plan: bool(plan.sources), "TypeError: Got unsupported ScalarType BFloat16"
    )
    evaluator = evaluating(runner)
    assert raced(evaluator, AMP) == pytest.approx([0.5, 0.5])
    (copy,) = runner.plans[-1].sources.values()
    assert "x.float().numpy()" in Path(copy).read_text()
    assert [names for names in evaluator.mends.values()] == [{"bf16_autocast"}]
    assert runner.plan(Recipe()).sources == runner.plan(Recipe((LAST,))).sources == {}
    assert runner.plan(Recipe((AMP,))).sources


def test_a_mend_that_does_not_help_ends_with_the_crash(tmp_path: Path) -> None:
    runner = Script(tmp_path, lambda plan: False, "TypeError: Got unsupported ScalarType BFloat16")
    evaluator = evaluating(runner)
    with pytest.raises(TrialFailed, match="BFloat16"):
        raced(evaluator, AMP)
    assert len(evaluator.mends) == 1


def test_a_switch_that_does_what_was_raced_takes_its_place(tmp_path: Path, gated: list[Recipe]) -> None:
    runner = Script(tmp_path, lambda plan: True, effects=("autocast",))
    found = evaluating(runner).by_switches(Recipe((AMP, LAST)), until=1e9)
    assert [change.arguments for change in found] == [["--amp"], []]
    assert gated == [found]


def test_a_switch_that_does_nothing_here_is_left_alone(tmp_path: Path, gated: list[Recipe]) -> None:
    runner = Script(tmp_path, lambda plan: True, effects=("tf32_on",))
    assert evaluating(runner).by_switches(Recipe((AMP,)), until=1e9) == Recipe((AMP,))


def test_no_switch_is_tried_without_time(tmp_path: Path) -> None:
    runner = Script(tmp_path, lambda plan: True, effects=("autocast",))
    assert evaluating(runner).by_switches(Recipe((AMP,)), until=-1.0) == Recipe((AMP,))
    assert runner.plans == []


def test_the_command_that_has_the_switches_is_handed_back() -> None:
    full = tunings.full()
    assert full.tuning is not None
    command = "python train.py --amp --workers 2"
    patch = structs.replace(full.tuning.patch, command=command, path="", text="")
    run = structs.replace(full, tuning=structs.replace(full.tuning, patch=patch))
    assert next_steps(run)[0] == command
    assert command in text.render(run)
