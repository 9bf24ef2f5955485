"""Verbs of the shell that Python has, too: check, suite, verify, tune_model, tune_server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import laptime

FAST: dict[str, Any] = {"budget": 0.3, "processes": 1, "backends": ["null"], "save": True}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_is_checked_against_another_and_against_a_file() -> None:
    laptime.bench("null:spin=1ms", name="quick", **FAST)
    slow = laptime.bench("null:spin=4ms", **FAST)
    Path("wide.toml").write_text('[[budget]]\nmax = "10 s"\n', encoding="utf-8")
    Path("laptime.toml").write_text('[[budget]]\nmax = "2 us"\n', encoding="utf-8")

    assert [each.word for each in laptime.check("quick", budgets="wide.toml").verdicts] == ["kept"]
    assert [each.word for each in laptime.check(slow).verdicts] == ["broken"]
    judged = laptime.check("quick", against=slow, budgets="wide.toml", tolerance="90%").verdicts
    assert [each.metric for each in judged][1:]
    assert "broken" not in {each.word for each in judged}


def test_a_check_against_nothing_is_refused() -> None:
    laptime.bench("null:spin=1ms", **FAST)
    with pytest.raises(laptime.UsageError, match="check against"):
        laptime.check("last")


def test_a_suite_is_one_run_with_its_verdicts() -> None:
    Path("mine.toml").write_text(
        '[[benchmark]]\nname = "a"\ntarget = "null:spin=1ms"\nbudget = 0.3\nmax = { latency = "1 us" }\n'
        '[[benchmark]]\nname = "b"\ntarget = "null:spin=1ms"\n',
        encoding="utf-8",
    )
    run = laptime.suite("mine.toml", match=["a"], trials=1)
    assert [case.target for case in run.cases] == ["null:spin=1ms"]
    assert [verdict.word for verdict in run.verdicts] == ["broken"]
    with pytest.raises(laptime.UsageError, match=r"mine\.toml"):
        laptime.suite("mine.toml", match=["c"])


@pytest.mark.parametrize(
    ("verb", "word"), [("verify", "nowhere.json"), ("tune_model", "nowhere.py:build"), ("tune_server", "ls")]
)
def test_what_does_not_exist_is_refused(verb: str, word: str) -> None:
    with pytest.raises(laptime.UsageError):
        getattr(laptime, verb)(word)


def test_an_option_of_another_verb_is_refused_by_name() -> None:
    with pytest.raises(laptime.UsageError, match="'exprt'"):
        laptime.tune_model("torchvision:resnet18", exprt="fast")
    assert "--header" not in (laptime.verify.__doc__ or "")
    assert "Time limit" in (laptime.verify.__doc__ or "")
