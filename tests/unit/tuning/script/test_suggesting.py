"""What is only suggested is run before it is shown; what fails, or has other losses, is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.played_trials import PlayedRunner, PlayedTrial, evaluating
from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import LoopProfile, Site
from laptime.tuning.script import final_set
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult

SCRIPT = """import torch
for batch in loader:
    loss = model(batch)
    loss.backward()
    print(loss.item())
"""


class Patched(PlayedRunner):
    """Plays the patched script: `error` is how it ends, `loss` what it computes."""

    error, loss = "", 1.0

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Any]:
        if not plan.sources:
            with super().run(plan) as running:
                yield running
            return
        self.plans.append(plan)
        result = TrialResult(ended="raised" if self.error else "stopped", status=1, error=self.error)
        steps = plan.steps
        blocks = [] if self.error else [Block(0, 0, [0.1] * steps, [self.loss] * steps, [4] * steps)]
        yield PlayedTrial(blocks, result, hung=False, documents={})


@pytest.fixture
def suggest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rung, diff and runner of a chatty script whose `other` share of a step could be saved."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.setattr(final_set, "main_file", lambda evaluator: str(path))
    monkeypatch.setattr(final_set, "main_file", lambda evaluator: str(path))
    profile = LoopProfile(
        step=0.1,
        batch=4,
        shares={"forward": 0.05, "other": 0.05},
        facts=frozenset({"syncs_every_step"}),
        sites=(Site("fetch", str(path), 2, "<module>", 2, "loader"),),
        syncs=(Site("sync", str(path), 5, "<module>", 5, "", detail="item", count=1.0),),
    )

    def made(*, other: float = 0.05, end: float = 1e9, **ends: Any) -> tuple[list[Rung], str, Patched]:
        runner = Patched(tmp_path / "work")
        for name, value in ends.items():
            setattr(runner, name, value)
        loop_profile = replace(profile, shares={"forward": 0.1 - other, "other": other})
        rungs, diff = final_set.suggestions(evaluating(runner, loop_profile), loop_profile, end=end)
        return rungs, diff, runner

    return made


def test_a_suggestion_was_run_before_it_is_shown(suggest: Any) -> None:
    (rung,), diff, runner = suggest()
    assert rung.verdict == "suggested"
    assert "+    if is_logged:" in diff
    (patched,) = [plan for plan in runner.plans if plan.sources]
    assert "is_logged" in Path(next(iter(patched.sources.values()))).read_text()


def test_one_that_does_not_run_is_not_shown(suggest: Any) -> None:
    (rung,), diff, _ = suggest(error="NameError: is_logged")
    assert (rung.verdict, diff, rung.suggestion) == ("not tried", "", "")
    assert "run: NameError" in rung.reason


def test_one_with_other_losses_is_not_shown(suggest: Any) -> None:
    (rung,), diff, _ = suggest(loss=0.072)
    assert (rung.verdict, diff) == ("not tried", "")
    assert "other losses" in rung.reason


def test_one_that_nobody_had_time_to_run_is_not_shown(suggest: Any) -> None:
    (rung,), diff, runner = suggest(end=0.0)
    assert (rung.verdict, diff, runner.plans) == ("not tried", "", [])


def test_below_what_can_be_seen_nothing_is_suggested(suggest: Any) -> None:
    assert suggest(other=0.002)[:2] == ([], "")
