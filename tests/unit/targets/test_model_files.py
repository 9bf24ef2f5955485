"""`model.onnx` and `model.xml` as targets: checked without any framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime import targets
from laptime.kit.errors import TargetError


def test_an_onnx_file_is_run_by_onnxruntime(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"graph")
    recipe = targets.parse(f"{tmp_path}/net.onnx")
    assert (recipe.kind, recipe.backend) == ("onnx_file", "onnxruntime")
    assert recipe.file == str((tmp_path / "net.onnx").resolve())


def test_a_file_in_the_current_folder_needs_no_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(b"graph")
    monkeypatch.chdir(tmp_path)
    assert targets.parse("net.onnx").sha256 == targets.parse("./net.onnx").sha256


def test_weights_beside_an_openvino_model_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text("<net/>")
    with pytest.raises(TargetError, match=r"no file .*net\.bin"):
        targets.parse(f"{tmp_path}/net.xml")
    (tmp_path / "net.bin").write_bytes(b"1")
    recipe = targets.parse(f"{tmp_path}/net.xml")
    assert recipe.backend == "openvino"
    (tmp_path / "net.bin").write_bytes(b"2")
    assert targets.parse(f"{tmp_path}/net.xml").sha256 != recipe.sha256


def test_a_misspelt_file_has_a_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "resnet18.onnx").write_bytes(b"graph")
    with pytest.raises(TargetError) as told:
        targets.parse(f"{tmp_path}/resnet81.onnx")
    assert told.value.next.endswith("resnet18.onnx?")


def test_a_folder_is_no_model_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").mkdir()
    with pytest.raises(TargetError, match="is a folder"):
        targets.parse(f"{tmp_path}/net.onnx")


def test_a_model_file_holds_no_program_for_other_backends(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"graph")
    with pytest.raises(TargetError, match="Python program") as told:
        targets.parse(f"{tmp_path}/net.onnx").build(1)
    assert "--backend onnxruntime" in told.value.next
