"""`--python openvino=.venv-ov`: what needs a package is written and run where it is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.tuning_parts import SURVEYED
from laptime.kit.errors import Unavailable, UsageError
from laptime.launch import fresh_call
from laptime.tuning.inference import changes
from laptime.tuning.inference.changes import Interpreters, find_candidates
from laptime.tuning.inference.folders import Folders
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting

OPENVINO, INT8 = Recipe((Change("openvino"),)), Recipe((Change("compiled_int8"),))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An environment that has OpenVINO, and no PyTorch; the packages of the export are here."""
    place = tmp_path / "ov" / "bin"
    place.mkdir(parents=True)
    (place / "python").symlink_to(sys.executable)
    monkeypatch.setattr(changes, "_ask_installed", lambda python: frozenset({"openvino"}))
    here = ("onnx", "onnxscript")
    monkeypatch.setattr(changes, "find_spec", lambda package: object() if package in here else None)
    return str(place.parent)


def test_what_a_change_needs_is_looked_for_where_it_runs(elsewhere: str) -> None:
    assert Interpreters().missing("openvino") == ["openvino"]
    named = Interpreters.of_text(f"openvino={elsewhere}")
    assert named.missing("openvino") == []
    assert named.missing("openvino_int8") == ["nncf"]
    assert named.missing("onnxruntime") == ["onnxruntime"]
    assert named.of(["openvino_bf16", "huge_pages"]) == f"{elsewhere}/bin/python"
    assert (named.of(["huge_pages"]), named.of(["onnxruntime"])) == ("", "")
    assert named.text(["openvino"]) == f"openvino={elsewhere}/bin/python"
    assert named.text(["compiled"]) == ""


def test_packages_of_the_export_are_laptimes_own(elsewhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "find_spec", lambda package: None)
    assert Interpreters.of_text(f"openvino={elsewhere}").missing("openvino") == ["onnx", "onnxscript"]


def test_candidates_know_of_them(elsewhere: str) -> None:
    named = Interpreters.of_text(f"openvino={elsewhere}")
    offered = find_candidates(
        LoopProfile(step=0.02, facts=frozenset({"cpu"})),
        Recipe(),
        goal="latency",
        allow=frozenset({"exact", "reassociated"}),
        only=(),
        skip=(),
        block=0.4,
        starts=8.0,
        rounds=6,
        missing_of=named.missing,
    )
    assert "openvino" in {each.change.name for each in offered.usable}
    assert "not installed" in offered.ruled_out["onnxruntime"]


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("{}", UsageError, "runtimes have an interpreter, models have none"),
        ("opevino={}", UsageError, "opevino"),
        ("openvino=/no/such/place", UsageError, "there is no Python interpreter"),
        ("nncf={}", Unavailable, "nncf is not installed in"),
    ],
)
def test_a_slip_is_told_before_anything_runs(
    text: str, error: type[Exception], what: str, elsewhere: str
) -> None:
    with pytest.raises(error, match=what):
        Interpreters.of_text(text.format(elsewhere))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The functions that were called, with their interpreter and the file that they begin with."""
    made: list[tuple[str, str, str]] = []

    def call(function: str, arguments: dict[str, Any], *, timeout: float, python: str = "") -> dict[str, Any]:
        name = function.rpartition(":")[2]
        made.append((name, python, Path(arguments.get("file", "")).name))
        if name == "build":
            folder = Path(arguments["folder"])
            folder.mkdir()
            (folder / "recipe.json").write_text(json.dumps({"target": "m", "settings": {"outputs": None}}))
        return {"refused": "", "form": "onnx" if name == "export" else "exported"}

    monkeypatch.setattr(fresh_call, "call", call)
    return made


def _folders(place: Path, python: str) -> Folders:
    request = ModelRequest(target="m", python=python)
    return Folders(place, request, SURVEYED, place / "none", TimeAccounting())


def test_a_runtime_elsewhere_begins_with_the_exported_model(
    elsewhere: str, called: Any, tmp_path: Path
) -> None:
    folders = _folders(tmp_path, f"openvino={elsewhere}")
    folders.ensure(OPENVINO)
    folders.ensure(Recipe((Change("inference_mode"),)))
    python = f"{elsewhere}/bin/python"
    assert called == [("export", "", ""), ("build", python, "model.onnx"), ("build", "", "")]
    assert folders.takes_arrays(OPENVINO)
    assert not folders.takes_arrays(Recipe())
    assert (folders.python(OPENVINO), folders.python(Recipe())) == (python, "")


def test_pytorchs_own_packages_begin_with_the_model(
    elsewhere: str, called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_ask_installed", lambda python: frozenset({"torchao", "torch"}))
    folders = _folders(tmp_path, f"torchao={elsewhere}")
    folders.ensure(INT8)
    assert called == [("build", f"{elsewhere}/bin/python", "")]
    assert not folders.takes_arrays(INT8)


def test_an_export_that_fails_is_a_change_that_cannot_be_made(
    elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def call(function: str, arguments: Any, **options: Any) -> dict[str, Any]:
        calls.append(function)
        return {"refused": "a branch depends on data", "form": "onnx"}

    monkeypatch.setattr(fresh_call, "call", call)
    with pytest.raises(TrialFailed, match="branch depends"):
        _folders(tmp_path, f"openvino={elsewhere}").ensure(OPENVINO)
    assert [each.rpartition(":")[2] for each in calls] == ["export"]


def test_an_interpreter_says_what_is_installed_there() -> None:
    """A real process: this interpreter, by its name."""
    there = changes._ask_installed.__wrapped__(sys.executable)
    assert there == frozenset(changes.list_installed())
