"""Models on a GPU, without one: facts, what is ruled out, waiting, memory, folders; a device is played.

What the real thing does, tests/device/test_tune_model.py asks where there is one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fixtures.scripted_model import ScriptedArm, ScriptedModel, World
from laptime.backends.torch import place
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference import arm_process, changes, survey
from laptime.tuning.inference.building import write_folder
from laptime.tuning.inference.changes import DEFAULT, find_candidates, form_of
from laptime.tuning.inference.draft import Draft, NoDraft
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

KERNEL = 0.02
"""Seconds that a call's kernels take on the device that plays."""


class Device:
    """`torch.cuda` of a device: what is queued ends later than the call that queues it returns."""

    def __init__(self) -> None:
        self.busy_until, self.free, self.allocated, self.reserved = 0.0, 1000, 0, 0

    def queue(self) -> None:
        self.busy_until = max(self.busy_until, time.perf_counter()) + KERNEL

    def synchronize(self, device: Any) -> None:
        time.sleep(max(0.0, self.busy_until - time.perf_counter()))

    def set_device(self, device: Any) -> None:
        assert str(device) == "cuda:0"

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return self.free, 1000

    def max_memory_allocated(self, device: Any) -> int:
        return self.allocated

    def memory_reserved(self, device: Any) -> int:
        return self.reserved


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    played = Device()
    monkeypatch.setattr(torch, "cuda", played)
    return played


def test_a_call_is_timed_until_the_device_has_finished(device: Device) -> None:
    answer = arm_process.time_calls(
        lambda x: device.queue(), [1], 5, device=arm_process.device_named("cuda:0")
    )
    assert len(answer["seconds"]) == 5
    assert min(answer["seconds"]) >= 0.9 * KERNEL
    # The two calls before are not waited for within the first one that counts.
    assert answer["seconds"][0] < 2 * KERNEL


def test_memory_is_that_of_the_allocator_and_what_else_was_taken_from_the_driver(device: Device) -> None:
    ours = arm_process.device_named("cuda:0")
    device.free, device.reserved, device.allocated = 700, 200, 150  # 300 taken, 200 of them by the allocator
    assert ours.peak() == 150 + 100
    device.free = 400  # by the other side, while this one waits
    ours.begin()
    assert ours.peak() == 150 + 100
    device.free, device.reserved, device.allocated = 350, 250, 240
    assert ours.peak() == 240 + 100


def test_the_cpu_has_nothing_to_wait_for() -> None:
    host = arm_process.device_named("cpu")
    given = [object()]
    assert host.move(given) is given
    assert host.peak() > 1 << 20


@pytest.mark.parametrize(
    ("capability", "fast"),
    [
        ((6, 1), set()),
        ((7, 5), {"fp16"}),
        ((8, 0), {"fp16", "bf16", "tf32"}),
        ((9, 0), {"fp16", "bf16", "tf32"}),
    ],
)
def test_what_a_device_computes_fast(
    capability: tuple[int, int], fast: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    found = survey.facts_of_cuda(torch.device("cuda:0"))
    assert found & {"fp16", "bf16", "tf32", "cuda", "cpu"} == fast | {"cuda"}


@pytest.mark.parametrize(
    ("there", "chosen"), [(["cuda:0", "cpu"], "cuda:0"), (["mps", "cpu"], "cpu"), (["cpu"], "cpu")]
)
def test_the_default_is_a_device_that_folders_run_on(
    there: list[str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "present", lambda: there)
    assert (survey.device_of("auto"), survey.device_of("cpu")) == (chosen, "cpu")


def offered(*facts: str) -> Any:
    profile = LoopProfile(
        step=0.02, cpus=4, threads=4, device="cuda:0", facts=frozenset({"cuda", "gcc", "conv", *facts})
    )
    allow = DEFAULT | {"precision"}
    return find_candidates(
        profile, Recipe(), goal="latency", allow=allow, only=(), skip=(), block=0.4, starts=8.0, rounds=6
    )


def test_what_helps_a_cpu_alone_is_ruled_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "find_spec", lambda name: object())
    found = offered("linear", "tf32", "bf16", "fp16")
    of_cpus = {"allocator", "huge_pages", "flush_denormal", "threads", "compiled_int8", "onnxruntime"}
    of_cpus |= {"openvino", "openvino_int8", "openvino_bf16", "onnxruntime_int8", "onnxruntime_dynamic_int8"}
    assert {found.ruled_out[name] for name in of_cpus} == {"the model is not on the CPU"}
    usable = {each.change.name for each in found.usable}
    assert {"cuda_graphs", "tf32", "bf16", "fp16", "compiled", "compiled_max_autotune"} <= usable
    assert {"channels_last", "inference_mode", "weight_only_int8", "weight_only_int4"} <= usable
    cpu = find_candidates(
        LoopProfile(step=0.02, facts=frozenset({"cpu"})),
        Recipe(), goal="latency", allow=DEFAULT, only=(), skip=(), block=0.4, starts=8.0, rounds=6,
    )  # fmt: skip
    assert "NVIDIA GPU" in cpu.ruled_out["cuda_graphs"]


def test_an_older_gpu_and_varying_shapes_are_reasons() -> None:
    found = offered("linear", "varying_shapes")
    assert "8.0" in found.ruled_out["tf32"]
    assert "8.0" in found.ruled_out["bf16"]
    assert "shapes vary" in found.ruled_out["cuda_graphs"]


@pytest.mark.parametrize(
    ("target", "options", "what"),
    [
        ("torchvision:resnet18", {"device": "mps"}, "models are not tuned on 'mps'"),
        ("torchvision:resnet18", {"device": "cuda", "instances": [1, 2]}, "--instances"),
        ("torchvision:resnet18", {"device": "cuda:0", "goal": "cost"}, "--goal cost"),
        ("net.onnx", {"device": "cuda"}, "ONNX files are tuned on the CPU"),
    ],
)
def test_what_cannot_be_done_is_refused(
    target: str, options: dict[str, Any], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(b"")
    monkeypatch.setattr("laptime.backends.onnxruntime.imports", lambda variant: None)
    with pytest.raises(UsageError, match=what) as refused:
        check(ModelRequest(target=target, **options))
    assert refused.value.why
    assert "--device" in refused.value.next


def test_setups_of_processes_are_looked_for_on_the_cpu() -> None:
    assert ModelRequest(target="x", device="auto", instances=[1, 2]).place == "cpu"
    assert ModelRequest(target="x", device="auto").place == "auto"


@pytest.mark.parametrize(
    ("where", "order"),
    [
        ("cpu", ["start", "start", "wait", "wait"]),
        ("cuda:0", ["start", "wait", "start", "wait", "wait", "wait"]),
    ],
)
def test_arms_of_a_device_load_one_after_the_other(
    where: str, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, seen = ScriptedModel(World({"good": 0.5})), list[str]()
    model.surveyed["device"] = where

    def arm(recipe: Recipe) -> ScriptedArm:
        seen.append("start")
        return ScriptedArm(model.world, recipe)

    monkeypatch.setattr(model, "arm", arm)
    monkeypatch.setattr(ScriptedArm, "wait", lambda self: seen.append("wait"))
    rounds = model.race(Recipe(), Recipe((Change("good"),)))
    assert next(rounds).ratio < 0.6
    rounds.close()
    assert seen == order


# The folder


class Graphs:
    """CUDA graphs, played: a replay runs what was captured once more, from and into the same memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replays, self.calls, self.side = 0, 0, 0
        self.last: Any = None
        stream = SimpleNamespace(wait_stream=lambda other: None)
        fakes: dict[str, Any] = {
            "Stream": lambda device: stream,
            "current_stream": lambda: stream,
            "stream": self.beside,
        }
        fakes |= {"CUDAGraph": lambda: self, "graph": nullcontext, "device": lambda device: nullcontext()}
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        load = torch.export.load
        monkeypatch.setattr(torch.export, "load", lambda path: self.loaded(load(path)))

    @contextmanager
    def beside(self, stream: Any) -> Iterator[None]:
        before = self.calls
        yield
        self.side = self.calls - before

    def loaded(self, program: Any) -> Any:
        run = program.module()

        def call(*inputs: Any) -> Any:
            self.calls += 1
            made = run(*inputs)
            self.last = (run, inputs, made)
            return made

        return SimpleNamespace(module=lambda: call)

    def replay(self) -> None:
        run, inputs, made = self.last
        self.replays += 1
        made.copy_(run(*inputs))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a linear layer with changes of a GPU; the CPU stands in for the device."""
    torch.manual_seed(0)
    inputs = np.ones((2, 4), np.float32)
    RecordedCalls([RecordedCall(2, [inputs], [])]).save(tmp_path / "calibration.npz")
    model = torch.nn.Linear(4, 2).eval()
    draft = Draft(model, [torch.ones(2, 4)], [True], None, tmp_path / "calibration.npz")
    draft.settings["device"] = "cpu"
    for name in ("cuda_graphs", "tf32", "inference_mode"):
        changes.load(name).make(draft, {})
    place = tmp_path / "folder"
    place.mkdir()
    form_of("exported").write(draft, place)
    write_folder(place, form_of("exported").on_cuda, draft.settings, target="", recipe=[])
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    return place


def test_a_graph_is_captured_after_warm_up_and_gives_outputs_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = Graphs(monkeypatch)
    told: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", told.append)
    model = arm_process.load_model(folder)
    assert told == ["high"]
    layer = torch.nn.Linear(4, 2)
    layer.load_state_dict(torch.load(folder.parent / "weights.pt"))
    one, two = torch.randn(2, 4), torch.randn(2, 4)
    first = model(one)
    assert (graphs.side, graphs.replays) == (3, 1)
    second = model(two)
    assert (graphs.calls, graphs.replays) == (4, 2)  # nothing but the replay
    with torch.no_grad():
        assert torch.allclose(first, layer(one))  # the second call has not written over it
        assert torch.allclose(second, layer(two))
        other = torch.randn(3, 4)
        assert torch.allclose(model(other), layer(other))
    assert graphs.replays == 2  # another batch size runs without the graph


def test_the_folder_names_its_device_and_settings(folder: Path) -> None:
    settings = json.loads((folder / "recipe.json").read_text())["settings"]
    assert settings["cuda_graph"] == [["torch.float32", 2, 4]]
    assert (settings["device"], settings["float32"], settings["precision"]) == ("cpu", "high", "float16")
    assert "laptime" not in (folder / "tuned.py").read_text()


def test_an_arm_tells_its_peak_with_every_answer(folder: Path, tmp_path: Path) -> None:
    from laptime.tuning.inference.folders import Arm

    settings = json.loads((folder / "recipe.json").read_text())
    write_folder(folder, "torch_cpu", settings["settings"], target="", recipe=[])
    with Arm(folder, tmp_path / "calibration.npz", isolated=True, timeout=60.0, device="cpu") as arm:
        assert len(arm.seconds(3)) == 3
        assert arm.peak > 1 << 20
        assert arm.outputs(tmp_path / "made.npz")["counts"] == [1]
    assert "torch" in sys.modules


def test_weights_alone_in_int8_run_without_torchao(tmp_path: Path) -> None:
    """On the CPU, which computes the same: exported, loaded again, and within the limits of int8."""
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)]
    model = torch.nn.Sequential(*layers).eval()
    inputs = torch.randn(4, 512)
    with torch.no_grad():
        expected = model(inputs)
    draft = Draft(model, [inputs], [True], None, tmp_path / "none")
    changes.load("weight_only_int8").make(draft, {})
    form_of("exported").write(draft, tmp_path)
    held = torch.export.load(tmp_path / "model.pt2")
    assert max(each.numel() for each in held.state_dict.values() if each.dtype == torch.int8) == 512 * 512
    with torch.no_grad():
        error = held.module()(inputs[:3]) - expected[:3]
    assert 0 < float(error.square().mean().sqrt() / expected.square().mean().sqrt()) < 0.05


def test_a_model_without_large_layers_has_no_weights_to_quantise(tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    draft = Draft(torch.nn.Linear(8, 8), [torch.ones(2, 8)], [True], None, tmp_path / "none")
    with pytest.raises(NoDraft, match="of 262144 weights"):
        changes.load("weight_only_int8").make(draft, {})
