"""TensorRT, played: what the builder is asked for, and what the folder does with an engine."""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from laptime.tuning.inference import arm_process, changes
from laptime.tuning.inference.building import write_folder
from laptime.tuning.inference.draft import Draft, NoDraft
from laptime.tuning.inference.runtimes import tensorrt as runtime

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Played:
    """Everything of `tensorrt` that is used: a network of one input `x` and one output `y`, which is 2 x."""

    def __init__(self, *, reads: bool = True, builds: bool = True, typed: bool = True) -> None:
        self.reads, self.builds = reads, builds
        self.flags, self.cleared, self.shapes = -1, list[str](), dict[str, Any]()
        self.at: dict[str, int] = {}
        self.shape: tuple[int, ...] = ()
        tensor = SimpleNamespace(num_inputs=1, num_outputs=1)
        tensor.get_input = lambda at: SimpleNamespace(name="x")
        tensor.get_output = lambda at: SimpleNamespace(name="y")
        self.network = tensor
        made: Any = ModuleType("tensorrt")
        made.Logger = type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None})
        made.NetworkDefinitionCreationFlag = SimpleNamespace(**({"STRONGLY_TYPED": 1} if typed else {}))
        made.BuilderFlag = SimpleNamespace(TF32="tf32")
        made.DataType = SimpleNamespace(
            **{name: name for name in ("FLOAT", "HALF", "BF16", "INT64", "INT32", "BOOL")}
        )
        made.Builder, made.OnnxParser, made.Runtime = self.builder, self.parser, self.runtime
        self.module = made

    def builder(self, logger: Any) -> Any:
        config = SimpleNamespace(clear_flag=self.cleared.append, add_optimization_profile=lambda profile: 0)
        profile = SimpleNamespace(set_shape=lambda name, *shapes: self.shapes.update({name: shapes}))

        def network(flags: int) -> Any:
            self.flags = flags
            return self.network

        return SimpleNamespace(
            create_network=network,
            create_builder_config=lambda: config,
            create_optimization_profile=lambda: profile,
            build_serialized_network=lambda network, config: b"engine" if self.builds else None,
        )

    def parser(self, network: Any, logger: Any) -> Any:
        error = SimpleNamespace(desc=lambda: "no importer for GroupNorm")
        return SimpleNamespace(parse_from_file=lambda file: self.reads, get_error=lambda at: error)

    def runtime(self, logger: Any) -> Any:
        def set_shape(name: str, shape: tuple[int, ...]) -> bool:
            self.shape = shape
            return shape[0] <= 8

        context = SimpleNamespace(
            set_input_shape=set_shape,
            set_tensor_address=lambda name, at: self.at.update({name: at}),
            get_tensor_shape=lambda name: self.shape,
            execute_async_v3=lambda stream: self.run(),
        )
        engine = SimpleNamespace(
            create_execution_context=lambda: context, get_tensor_dtype=lambda name: "FLOAT"
        )
        return SimpleNamespace(deserialize_cuda_engine=lambda data: engine if data == b"engine" else None)

    def run(self) -> None:
        kind = ctypes.c_float * int(torch.tensor(self.shape).prod())
        x, y = (kind.from_address(self.at[name]) for name in "xy")
        y[:] = [2 * each for each in x]


@pytest.fixture
def draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draft:
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0), raising=False
    )
    graph = "model.onnx"
    monkeypatch.setattr(runtime, "write_onnx", lambda draft, folder: (folder / graph).write_bytes(b"graph"))
    made = Draft(torch.nn.Linear(3, 3), [torch.ones(2, 3)], [True], None, tmp_path / "none", device="cpu")
    changes.load("tensorrt").make(made, {})
    made.settings |= {"outputs": None, "device": "cpu"}
    return made


def played(monkeypatch: pytest.MonkeyPatch, **options: bool) -> Played:
    made = Played(**options)
    monkeypatch.setitem(sys.modules, "tensorrt", made.module)
    return made


def test_the_engine_is_of_float32_and_of_any_batch_up_to_four_times(
    draft: Draft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = played(monkeypatch)
    changes.form_of("tensorrt").write(draft, tmp_path)
    assert (builder.flags, builder.cleared) == (2, ["tf32"])
    assert builder.shapes == {"x": ((1, 3), (2, 3), (8, 3))}
    assert {path.name for path in tmp_path.iterdir()} == {"model.engine"}
    assert (draft.settings["takes"], draft.settings["gives"]) == (["x"], ["y"])


def test_where_types_are_always_those_of_the_file_there_is_no_flag(
    draft: Draft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = played(monkeypatch, typed=False)
    changes.form_of("tensorrt").write(draft, tmp_path)
    assert builder.flags == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [({"reads": False}, "cannot read it: no importer for GroupNorm"), ({"builds": False}, "no kernels")],
)
def test_what_cannot_be_built_is_refused_with_the_reason(
    options: dict[str, bool],
    why: str,
    draft: Draft,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played(monkeypatch, **options)
    with pytest.raises(NoDraft, match=why):
        changes.form_of("tensorrt").write(draft, tmp_path)
    assert not (tmp_path / "model.engine").exists()


def test_the_folder_runs_an_engine_whose_outputs_stay(
    draft: Draft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch)
    changes.form_of("tensorrt").write(draft, tmp_path)
    write_folder(tmp_path, changes.form_of("tensorrt").on_cuda, draft.settings, target="", recipe=[])
    assert json.loads((tmp_path / "recipe.json").read_text())["settings"]["takes"] == ["x"]
    model = arm_process.load_model(tmp_path)
    one, two = torch.randn(2, 3), torch.randn(4, 3)
    first, second = model(one), model(two.T.contiguous().T)  # laid out by columns
    assert torch.equal(first, 2 * one)
    assert torch.equal(second, 2 * two)
    with pytest.raises(ValueError, match=r"take \(9, 3\)"):
        model(torch.ones(9, 3))


def test_float16_takes_another_module(draft: Draft) -> None:
    changes.load("tensorrt_fp16").make(draft, {})
    assert draft.settings["precision"] == "float16"
    assert draft.form == "tensorrt"
    assert {each.dtype for each in draft.module.parameters()} == {torch.float16}
