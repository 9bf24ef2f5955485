"""Diagnoses by trials that are played, and their record."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.played_trials import LAST, PlayedRunner
from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.script import records as diagnosis_record
from laptime.tuning.script.records import with_utilization
from laptime.tuning.script.request import TuneRequest, choice_of
from laptime.tuning.script.trial_evaluator import TrialEvaluator


def test_a_diagnosis_is_made_once_and_its_utilisation_told(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="train.py")))
    runner.documents = {LoopProfile: LoopProfile(step=0.02, batch=8, details={"busy": 0.015})}
    found = evaluator.diagnose(LAST)
    assert evaluator.diagnose(LAST) is found
    assert len(runner.plans) == 1
    assert diagnosis_record.utilization(found) == pytest.approx(0.75)
    assert diagnosis_record.diagnosis(LAST, found).utilization == pytest.approx(0.75)
    kept = Rung(name="channels_last", label="channels_last", kept=True)
    assert with_utilization(kept, evaluator).utilization == pytest.approx(0.75)
    other = Rung(name="tf32", label="tf32", kept=True)
    assert with_utilization(other, evaluator).utilization is None
    assert diagnosis_record.utilization(LoopProfile(step=0.1)) is None
