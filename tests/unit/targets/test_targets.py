"""What users name, and what they are told when it is wrong. No framework is imported here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from laptime import targets
from laptime.kit import registry
from laptime.kit.errors import LaptimeError, TargetError, UserCodeError
from laptime.tuning.inference.request import is_model

MODEL = """
import json
from collections import OrderedDict as Ordered

RATE = 3

def build():
    return lambda x: x, 4

def build_batch(*, batch):
    return lambda x: x, batch

def only_model():
    return lambda: None

def needs(width, depth=2):
    return None

def nothing():
    return None

def pair():
    return 1, 2

def broken():
    raise ValueError("no weights\\nsecond line")

def leaves():
    raise SystemExit(3)

class Net:
    def __call__(self, x):
        return x

class Ready:
    def forward(self, x):
        return x
    def __call__(self, x):
        return self.forward(x)

ready = Ready()

if RATE:
    def conditional():
        return lambda: None
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"model_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODEL)
    return f"{name}.py"


def error_of(text: str, *, batch: int | None = None) -> LaptimeError:
    def use() -> None:
        recipe = targets.parse(text)
        if batch is not None:
            recipe.build(batch)

    with pytest.raises((TargetError, UserCodeError)) as caught:
        use()
    return caught.value


def test_misspelt_prefix_is_suggested() -> None:
    assert "torchvision:resnet18?" in error_of("torchvison:resnet18").next


def test_name_without_prefix_is_explained() -> None:
    error = error_of("resnet18")
    assert "'resnet18'" in error.what
    assert "torchvision:NAME" in error.why
    assert "bench torchvision:resnet18" in error.next


@pytest.mark.parametrize("text", ["", "  ", "a b", "a:b:c", "torchvision:", "timm:hf-hub:x/y", "x:;rm -rf"])
def test_odd_texts_are_target_errors(text: str) -> None:
    assert error_of(text).exit_code == 2


def test_function_of_a_file_is_found_and_called(model: str) -> None:
    recipe = targets.parse(f"{model}:build")
    program = recipe.build(1)
    assert (recipe.kind, recipe.source, program.inputs, program.origin) == ("file", model, 4, "given")
    assert len(recipe.sha256) == 64


def test_function_with_batch_is_called_with_each_batch(model: str) -> None:
    recipe = targets.parse(f"{model}:build_batch")
    assert recipe.per_batch()
    assert [recipe.build(batch).inputs for batch in (1, 8)] == [1, 8]
    assert not targets.parse(f"{model}:build").per_batch()


def test_class_and_model_object_are_models(model: str) -> None:
    assert targets.parse(f"{model}:Net").build(1).call(5) == 5
    assert targets.parse(f"{model}:ready").build(1).call(5) == 5
    assert targets.parse(f"./{model}:conditional").build(1).origin == "none"


def test_function_of_a_module_is_found_in_the_current_folder(model: str) -> None:
    place = model.removesuffix(".py")
    assert targets.parse(f"{place}:build").build(1).inputs == 4
    assert f"{place}:build?" in error_of(f"{place}:buld").next


def test_module_in_a_package_is_not_imported_to_be_checked(tmp_path: Path, model: str) -> None:
    package = tmp_path / "pkg_never_run"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "mod.py").write_text("def build(): return print")
    targets.parse("pkg_never_run.mod:build")
    assert "'bild'" in error_of("pkg_never_run.mod:bild").what
    assert "no module" in error_of("pkg_never_run.nomod:build").what
    error = error_of("pkg_never_run.mod:build", batch=1)
    assert isinstance(error, UserCodeError)
    assert "imported (__init__.py:1" in error.why


def test_missing_function_names_the_nearest(model: str) -> None:
    error = error_of(f"{model}:biuld")
    assert "'biuld'" in error.what
    assert f"{model}:build?" in error.next


def test_missing_file_names_the_nearest(model: str) -> None:
    wrong = model.replace("model", "modle")
    assert f"{model}:build?" in error_of(f"{wrong}:build").next
    assert "not exist" in error_of("nowhere/at/all.py:build").why


def test_file_without_function_lists_functions(model: str) -> None:
    error = error_of(model)
    assert "build" in error.why
    assert error.next == f"laptime bench {model}:build"


def test_functions_that_cannot_be_used_say_why(model: str) -> None:
    assert "argument width" in error_of(f"{model}:needs", batch=1).why
    assert "returned None" in error_of(f"{model}:nothing", batch=1).what
    assert "int, int" in error_of(f"{model}:pair", batch=1).what
    assert "type int" in error_of(f"{model}:RATE", batch=1).why


def test_raising_function_is_told_with_file_and_line(model: str) -> None:
    error = error_of(f"{model}:broken", batch=1)
    line = MODEL[: MODEL.index("raise ValueError")].count("\n") + 1
    assert isinstance(error, UserCodeError)
    assert error.exit_code == 4
    assert f"weights ({model}:{line} in broken)" in error.why
    assert isinstance(error_of(f"{model}:leaves", batch=1), UserCodeError)


def test_invalid_python_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("x = 1\ndef build(:\n")
    assert "(bad.py:2)" in error_of("bad.py:build").why


def test_star_import_may_bring_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "star_target.py").write_text("from os.path import *\n")
    assert targets.parse("star_target.py:join").kind == "file"
    assert "not exist" in error_of("star_target.py:joinn", batch=1).what


def test_file_whose_name_is_taken_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    import json

    (tmp_path / "json.py").write_text("def build(): return print, 7\n")
    assert targets.parse(f"{tmp_path}/json.py:build").build(1).inputs == 7
    assert sys.modules["json"] is json


def test_folder_of_the_file_can_be_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sibling_of_target.py").write_text("VALUE = 11\n")
    (tmp_path / "main_target.py").write_text(
        "import sibling_of_target\ndef build(): return print, sibling_of_target.VALUE\n"
        "if __name__ == '__main__': raise RuntimeError\n"
    )
    assert targets.parse(f"{tmp_path}/main_target.py:build").build(1).inputs == 11


@pytest.mark.parametrize("kind", registry.names("targets"))
def test_every_kind_keeps_the_contract(kind: str) -> None:
    module = registry.load("targets", kind)
    assert module.FORM
    assert not module.matches("")
    assert not module.matches("word")
    assert callable(module.resolve)
    assert callable(module.names)
    example = {
        "file": "a/b.py:f",
        "module": "a.b:f",
        "keras_file": "a/b.keras",
        "onnx_file": "a/b.onnx",
        "openvino_file": "a/b.xml",
    }.get(kind, f"{kind}:x")
    claimed = [
        other for other in registry.names("targets") if registry.load("targets", other).matches(example)
    ]
    assert claimed == [kind]


def test_inputs_are_passed_by_their_shape() -> None:
    assert targets.arguments((1, 2)) == ((1, 2), {})
    assert targets.arguments({"a": 1}) == ((), {"a": 1})
    assert targets.arguments([1, 2]) == (([1, 2],), {})


@pytest.mark.torch
def test_parsing_imports_no_framework() -> None:
    code = (
        "import sys; from laptime.targets import parse\n"
        "for t in ('torchvision:resnet18', 'timm:resnet18', 'null:noop'): parse(t)\n"
        "assert not {'torch', 'torchvision', 'timm', 'numpy'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "loader"),
    [
        ("net.pt2", "torch.export.load"),
        ("scripted.pt", "torch.jit.load"),
        ("/models/my net.PT", "torch.jit.load"),
        ("./traced.ts", "torch.jit.load"),
        ("yolo.torchscript", "torch.jit.load"),
        ("phone.ptl", "torch.jit.load"),
    ],
)
def test_a_file_of_pytorch_is_refused_with_the_way_out(name: str, loader: str) -> None:
    with pytest.raises(TargetError, match="not loaded") as raised:
        targets.parse(name)
    assert f'{loader}("{name}")' in raised.value.next
    assert is_model(name)


@pytest.mark.parametrize(
    "name", ["weights.pth", "runs/epoch=3.ckpt", "pytorch_model.bin", "M.safetensors", "w.pth.tar"]
)
def test_a_file_of_weights_is_neither_run_nor_read(name: str) -> None:
    with pytest.raises(TargetError, match="not loaded") as raised:
        targets.parse(name)
    assert "def build(): return MODEL, INPUTS" in raised.value.next
    assert is_model(name)


@pytest.mark.parametrize(("content", "is_one"), [(b"PK\3\4\0\0", True), (b"print(1)\n", False)])
def test_a_file_that_is_no_text_is_a_model_and_no_script(
    tmp_path: Path, content: bytes, is_one: bool
) -> None:
    """It was run as a script: source code cannot contain null bytes."""
    for name in ("weights", "lite.tflite"):
        (tmp_path / name).write_bytes(content)
        assert is_model(str(tmp_path / name)) is is_one
    assert not is_model(str(tmp_path / "nowhere"))
