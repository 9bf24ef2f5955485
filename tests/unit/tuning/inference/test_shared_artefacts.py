"""Folders that differ in settings alone share the files of one artefact; nothing is exported twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.tuning_parts import SURVEYED
from laptime.kit.errors import Died, Hung, LaptimeError
from laptime.launch import fresh_call
from laptime.tuning.inference.changes import artefact_of, is_as_exported
from laptime.tuning.inference.folders import Folders
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.runtimes import onnxruntime
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting

THREAD = Change("threads", {"value": 1})
FORMS = {"openvino": "openvino", "onnxruntime": "onnx", "compiled": "packaged"}


def recipe(*changes: str | Change) -> Recipe:
    return Recipe(tuple(Change(each) if isinstance(each, str) else each for each in changes))


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was built, in order; the builder refuses ONNX Runtime."""
    made: list[str] = []

    def build(
        function: str, arguments: dict[str, Any], *, timeout: float, python: str = ""
    ) -> dict[str, Any]:
        changes, folder = Recipe.from_json(arguments["recipe"]), Path(arguments["folder"])
        made.append(str(changes))
        form = next((FORMS[name] for name in changes.names if name in FORMS), "exported")
        if form == "onnx":
            return {"refused": "opset too new", "form": form}
        folder.mkdir()
        (folder / "model.bin").write_bytes(b"weights")
        settings = {"outputs": None, "properties": {"PERFORMANCE_HINT": "LATENCY"}}
        (folder / "recipe.json").write_text(json.dumps({"target": "m", "settings": settings}))
        (folder / "tuned.py").write_text("another one")
        return {"refused": "", "form": form}

    monkeypatch.setattr(fresh_call, "call", build)
    return made


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path, ModelRequest(target="m"), SURVEYED, tmp_path / "none", TimeAccounting())


def test_settings_alone_are_no_other_artefact(folders: Folders, builds: list[str]) -> None:
    plain, threaded = recipe("openvino"), recipe(THREAD, "openvino")
    places = [folders.ensure(each) for each in (plain, threaded, recipe("openvino", "huge_pages"))]
    assert builds == ["openvino"]
    assert len({(place / "model.bin").stat().st_ino for place in places}) == 1
    assert len(set(places)) == 3
    assert folders.settings(plain)["properties"] == {"PERFORMANCE_HINT": "LATENCY"}
    assert folders.settings(threaded)["properties"]["INFERENCE_NUM_THREADS"] == 1
    assert {folders.form(plain), folders.form(threaded)} == {"openvino"}
    about = json.loads((places[1] / "recipe.json").read_text())
    assert Recipe.from_json(about["recipe"]) == threaded


def test_with_huge_pages_another_file_loads_the_model(folders: Folders, builds: list[str]) -> None:
    plain, huge = folders.ensure(recipe("openvino")), folders.ensure(recipe("openvino", "huge_pages"))
    assert {path.name for path in huge.iterdir()} - {path.name for path in plain.iterdir()} == {"runtime.py"}
    assert (huge / "runtime.py").read_text() == (plain / "tuned.py").read_text()
    assert "madvise" in (huge / "tuned.py").read_text()


def test_compiled_code_holds_its_threads(folders: Folders, builds: list[str]) -> None:
    folders.ensure(recipe("compiled"))
    folders.ensure(recipe("compiled", THREAD))
    folders.ensure(recipe("compiled", THREAD, "allocator"))
    assert builds == ["compiled", "compiled + threads=1"]


def test_a_precision_that_the_runtime_chooses_is_a_setting(folders: Folders, builds: list[str]) -> None:
    bf16, float32 = folders.ensure(recipe("openvino_bf16", THREAD)), folders.ensure(recipe("openvino"))
    assert builds == ["openvino"]
    assert (bf16 / "model.bin").stat().st_ino == (float32 / "model.bin").stat().st_ino
    hints = [
        folders.settings(each)["properties"].get("INFERENCE_PRECISION_HINT")
        for each in (recipe("openvino_bf16", THREAD), recipe("openvino"))
    ]
    assert hints == ["bf16", None]  # the builder that is played writes none
    assert folders.settings(recipe("openvino_bf16", THREAD))["precision"] == "bfloat16"


def test_a_refusal_holds_for_all_settings_and_not_for_the_model_as_it_is(
    folders: Folders, builds: list[str]
) -> None:
    for each in (recipe("onnxruntime"), recipe("onnxruntime", THREAD)):
        with pytest.raises(TrialFailed, match="too new"):
            folders.ensure(each)
    assert builds == ["onnxruntime"]
    assert "laptime" in (folders.ensure(Recipe()) / "tuned.py").read_text()


@pytest.mark.parametrize(
    "failure",
    [Died("build ended without an answer", why="it was killed (SIGKILL)"), Hung("no answer", why="?")],
)
def test_a_builder_that_ends_is_a_change_that_cannot_be_made(
    failure: LaptimeError, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(fresh_call, "call", build)
    with pytest.raises(TrialFailed, match=failure.what) as failed:
        folders.ensure(recipe("openvino_int8", THREAD))
    assert failed.value.kind == "refused"
    assert (folders.ensure(Recipe()) / "tuned.py").is_file()


def test_settings_of_pytorch_share_the_exported_graph(folders: Folders, builds: list[str]) -> None:
    folders.ensure(recipe("inference_mode"))
    folders.ensure(recipe("allocator", THREAD))
    folders.ensure(recipe("channels_last", "inference_mode"))
    assert builds == ["as it is", "channels_last"]
    assert folders.ensure(Recipe()) != folders.ensure(recipe("inference_mode"))


@pytest.mark.parametrize(
    ("changes", "artefact", "as_exported"),
    [
        (recipe(THREAD, "openvino", "huge_pages"), recipe("openvino"), True),
        (recipe("openvino_bf16", THREAD), recipe("openvino"), True),
        (recipe("fold_batch_norm", "inference_mode"), recipe("fold_batch_norm"), False),
        (recipe("compiled", THREAD), recipe("compiled", THREAD), False),
        (recipe("onnxruntime_int8", "graph_optimization"), recipe("onnxruntime_int8"), True),
        (recipe("tensorrt_fp16"), recipe("tensorrt_fp16"), False),
    ],
)
def test_what_an_artefact_is_made_of(changes: Recipe, artefact: Recipe, as_exported: bool) -> None:
    assert artefact_of(changes) == artefact
    assert is_as_exported(changes) == as_exported


def test_other_runtimes_share_one_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    from fixtures import onnx_files
    from laptime.tuning.inference.draft import Draft

    exports: list[Path] = []

    def export(draft: Draft, folder: Path) -> None:
        exports.append(folder)
        onnx_files.save(folder / "model.onnx")

    monkeypatch.setattr(onnxruntime, "_export", export)
    shared = tmp_path / "export" / "model.onnx"
    places = [tmp_path / name for name in ("first", "second")]
    write: Callable[[Draft, Path], None] = onnxruntime.write_onnx
    for place in places:
        place.mkdir()
        write(Draft(object(), [], [], None, tmp_path, export=shared), place)
    assert exports == places[:1]
    assert len({(place / "model.onnx").stat().st_ino for place in (*places, shared.parent)}) == 1
