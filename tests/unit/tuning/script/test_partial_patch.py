"""A patch that is not the raced set, or does not do what was raced; and how a crash is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from fixtures import tunings
from laptime.analysis import tuned
from laptime.records.event import ignore
from laptime.records.run import Subject as RunSubject
from laptime.records.tuning import Gate, Patched, Rung, Speedup
from laptime.store.live_run import LiveRun
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script import subject
from laptime.tuning.script.final_set import PatchWriter, find_missing
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.script.trial_process import LONGEST_ERROR, crash
from laptime.tuning.script.trial_runner import TimedTrial, TrialPair
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session.subject import Record
from laptime.tuning.time_accounting import TrialAccounting
from laptime.tuning.trial.messages import TrialResult

BOTH = Recipe((Change("bf16_autocast"), Change("huge_pages")))
WHY = "the model's call and the backward pass share no block"


def side(*effects: str) -> TimedTrial:
    return TimedTrial([], TrialResult(effects=list(effects)))


def searched(recipe: Recipe) -> SearchResult:
    ladder = [
        Rung(name=change.name, label=str(change), kept=True, gate=Gate(word="passed")) for change in recipe
    ]
    profile = LoopProfile()
    return SearchResult(recipe=recipe, ladder=ladder, before=profile, after=profile, noise=0.01)


def session(tmp_path: Path) -> tuple[subject.ScriptSubject, Record, Any]:
    program = SimpleNamespace(subject=RunSubject(target="train.py", source=str(tmp_path / "train.py")))
    runner = SimpleNamespace(program=program, race_until=0.0, accounting=TrialAccounting())
    evaluator: Any = SimpleNamespace(
        runner=runner, profiles={}, loop_profile=None, by_switches=lambda recipe, until: recipe
    )
    request = TuneRequest(program="train.py", patch=tmp_path / "train.laptime.patch")
    record = Record(LiveRun("tune", ignore), request, lambda: 0.0)
    return subject.ScriptSubject(request, evaluator), record, evaluator


def test_what_is_left_of_a_set_is_another_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatchWriter, "edit", lambda _: (None, ["huge_pages"], {"bf16_autocast": WHY}))
    tuned_script, record, _ = session(tmp_path)
    found = tuned_script.choose(record, searched(BOTH))
    assert found.recipe.names == ("huge_pages",)
    assert [(rung.name, rung.kept) for rung in found.ladder] == [
        ("bf16_autocast", False),
        ("huge_pages", True),
    ]
    assert record.tuning.patch.left_out == {"bf16_autocast": WHY}
    assert subject._with_edit(found.ladder[0], record).edit == WHY


def test_a_set_of_which_nothing_can_be_edited_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatchWriter, "edit", lambda _: (None, [], dict.fromkeys(BOTH.names, WHY)))
    tuned_script, record, _ = session(tmp_path)
    assert tuned_script.choose(record, searched(BOTH)).recipe == BOTH


@pytest.mark.parametrize(
    ("word", "left_out", "contradictions", "withdrawn"),
    [
        ("slower", {}, [], True),
        ("slower", {"bf16_autocast": WHY}, [], True),
        ("unclear", {"bf16_autocast": WHY}, [], True),
        ("unclear", {}, ["the script uses no mixed precision"], True),
        ("unclear", {}, [], False),
        ("faster", {"bf16_autocast": WHY}, [], False),
    ],
)
def test_what_was_not_shown_to_be_faster_by_itself_is_not_handed_back(
    word: Any, left_out: dict[str, str], contradictions: list[str], withdrawn: bool, tmp_path: Path
) -> None:
    tuned_script, record, evaluator = session(tmp_path)
    patch = tmp_path / "train.laptime.patch"
    patch.write_text("--- a\n")
    record.set(
        speedup=Speedup(value=0.82, ci95=(0.7, 0.95), word=word, pairs=4, ratios=[1.2] * 4),
        patch=Patched(path=str(patch), text="--- a\n", left_out=left_out, contradictions=contradictions),
    )
    writer = PatchWriter(tuned_script.request, evaluator, searched(BOTH), record)
    assert writer.is_withdrawn() is withdrawn
    assert patch.exists() is not withdrawn
    assert bool(record.tuning.patch.path) is not withdrawn
    assert ("no patch" in record.tuning.patch.sentence) is withdrawn


def test_a_patch_that_does_not_do_what_was_raced_is_told() -> None:
    pair = TrialPair(side("conv", "loader"), side("conv", "loader"))
    raced = side("autocast", "conv", "loader")
    assert find_missing(pair, raced) == ["the script uses no mixed precision"]
    assert find_missing(TrialPair(pair.baseline, raced), raced) == []
    assert find_missing(TrialPair(side(), side()), raced) == []  # nobody looked


def test_a_contradiction_is_an_outcome_of_its_own() -> None:
    run = tunings.full()
    assert run.tuning is not None
    assert run.tuning.speedup is not None
    unclear = structs.replace(run.tuning.speedup, word="unclear", value=0.95, ci95=(0.88, 1.04))
    patch = structs.replace(run.tuning.patch, contradictions=["the script uses no mixed precision"])
    found = structs.replace(run, tuning=structs.replace(run.tuning, speedup=unclear, patch=patch))
    assert tuned.outcome(found) == "patch fails"
    assert tuned.outcome(run) == "faster"


def test_a_crash_names_the_users_line_and_its_mend(tmp_path: Path) -> None:
    file = tmp_path / "gan.py"
    frames = ((file, 52), (pytest.__file__, 9))
    traceback = "".join(f'  File "{path}", line {line}, in main\n' for path, line in frames)
    result = TrialResult(error="TypeError: Got unsupported ScalarType BFloat16", traceback=traceback)
    told = crash(result)
    assert "gan.py:52" in told
    assert "`.float()` in" in told
    tensor = TrialResult(error=f"RuntimeError: bad weight tensor([{'0.1, ' * 5000}])", traceback=traceback)
    assert len(crash(tensor)) < LONGEST_ERROR + len(str(file)) + 20
    assert crash(TrialResult()) == ""
