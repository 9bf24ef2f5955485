"""Recordings of a tiny model by three profilers: rows, classes and FLOP that are worked out by hand.

The files in `recorded/` are of one model: a convolution of 3 to 16 channels, 3 x 3, on two images of 32 x 32,
a batch norm, ReLU, pooling by 2, and a layer of 4,096 to 10 with softmax. What no reader looks at is out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.analysis import node_work
from laptime.analysis.bounds import Recorded
from laptime.analysis.operator_formulas import Tensor
from laptime.experiment.pairs import Pair, Visited
from laptime.kit import registry
from laptime.records.event import ignore
from laptime.records.overview import Ceilings, ModelBounds, Work
from laptime.records.tuning import Measured
from laptime.reports.documents.tuning import model as model_report
from laptime.store.live_run import LiveRun
from laptime.tuning.inference.changes import ROOM, form_of
from laptime.tuning.inference.recording import process, recordings
from laptime.tuning.inference.setups import Setup
from laptime.tuning.inference.subject import ModelSubject
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.session.session import Session

HERE = Path(__file__).parent / "recorded"
CONVOLUTION = 2 * (2 * 16 * 32 * 32) * (3 * 3 * 3)
LINEAR = 2 * (2 * 10) * 4096


def by_name(rows: list[Work]) -> Mapping[str, Work]:
    return {row.name: row for row in rows}


def test_onnx_runtime_is_read_with_weights_that_it_does_not_show() -> None:
    rows = by_name(recordings.of_onnx_runtime(HERE / "onnx_runtime.json", {"calls": 1, "seconds": 85e-6}))
    assert rows["Conv"].kind == "convolution"
    assert rows["Conv"].flop == {"float32": CONVOLUTION}
    assert rows["Conv"].total_ns == 26_000
    assert rows["Gemm"].flop == {"float32": LINEAR}
    weight, bias = 4096 * 10, 10
    assert rows["Gemm"].bytes == 4 * (2 * 4096 + weight + bias + 2 * 10)
    assert {row.kind for row in rows.values()} >= {"reduction", "normalisation", "copy"}
    assert rows["Reshape"].bytes is None
    assert rows["Reshape"].uncounted_ns == rows["Reshape"].total_ns == 6_000


def test_only_the_last_calls_of_onnx_runtime_are_counted() -> None:
    one = by_name(recordings.of_onnx_runtime(HERE / "onnx_runtime.json", {"calls": 1, "seconds": 85e-6}))
    three = by_name(recordings.of_onnx_runtime(HERE / "onnx_runtime.json", {"calls": 3, "seconds": 85e-6}))
    assert (one["Conv"].calls, three["Conv"].calls) == (1, 3)
    assert three["Conv"].flop == {"float32": 3 * CONVOLUTION}


def test_openvino_is_read() -> None:
    rows = by_name(recordings.of_openvino(HERE / "openvino.json", {"calls": 3, "seconds": 2e-3}))
    assert rows["Convolution"].flop == {"float32": 3 * CONVOLUTION}
    assert rows["Convolution"].total_ns == 188_000
    assert rows["FullyConnected"].flop == {"float32": 3 * LINEAR}
    assert rows["Reorder"].kind == "copy"
    assert rows["Pooling"].kind == "reduction"


def test_pytorch_is_read() -> None:
    rows = by_name(recordings.of_pytorch(HERE / "pytorch.json", {"calls": 5, "seconds": 1e-3}))
    assert rows["aten::conv2d"].flop == {"float32": 5 * CONVOLUTION}
    assert rows["aten::linear"].flop == {"float32": 5 * LINEAR}
    assert not any(row.kind == "fused" for row in rows.values())


def test_what_a_compiled_model_does_not_show_is_fused_kernels_without_flop() -> None:
    about = {"calls": 5, "seconds": 18.4e-3}
    rows = recordings.of_pytorch(HERE / "pytorch_compiled.json", about, is_compiled=True)
    (fused,) = [row for row in rows if row.kind == "fused"]
    assert (fused.flop, fused.bytes) == ({}, None)
    assert fused.uncounted_ns == fused.total_ns
    assert sum(row.total_ns for row in rows) == 5 * 18_400_000
    plain = recordings.of_pytorch(HERE / "pytorch_compiled.json", about)
    assert len(plain) == len(rows) - 1


def tensors(*shapes: list[int], dtype: str = "float32", size: int = 4) -> list[Tensor]:
    return [Tensor(shape, dtype, size) for shape in shapes]


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "flop"),
    [
        ("Conv", [[1, 8, 6, 6], [8, 1, 3, 3]], [[1, 8, 4, 4]], 2 * 128 * 9),  # depthwise
        ("Convolution", [[1, 8, 6, 6], [8, 1, 1, 3, 3]], [[1, 8, 4, 4]], 2 * 128 * 9),  # its groups first
        ("ConvTranspose", [[1, 4, 6, 6], [4, 2, 3, 3]], [[1, 2, 8, 8]], 2 * 144 * 18),
        ("MatMul", [[2, 5, 3], [3, 7]], [[2, 5, 7]], 2 * 70 * 3),
        ("Gemm", [[3, 5], [3, 7]], [[5, 7]], 2 * 35 * 3),  # the first one transposed
        ("ScaledDotProductAttention", [[1, 2, 6, 8], [1, 2, 5, 8], [1, 2, 5, 3]], [[1, 2, 6, 3]], 1320),
        ("Softmax", [[2, 10]], [[2, 10]], 20),
        ("MaxPool", [[1, 4, 6, 6]], [[1, 4, 3, 3]], 144),
        ("Transpose", [[4, 5]], [[5, 4]], 0),
    ],
)
def test_nodes_are_counted(op: str, inputs: list[Any], outputs: list[Any], flop: int) -> None:
    counted = node_work.work(op, tensors(*inputs), tensors(*outputs))
    assert counted is not None
    assert counted.flop == flop


def test_what_the_shapes_do_not_tell_is_not_counted() -> None:
    assert node_work.work("LSTM", tensors([5, 1, 8]), tensors([5, 1, 1, 8])) is None
    assert node_work.work("Conv", tensors([1, 8, 6, 6]), tensors([1, 8, 4, 4])) is None  # a packed weight
    summed = tensors([1, 8, 6, 6], [1, 8, 4, 4])
    assert node_work.work("FusedConv", summed, tensors([1, 8, 4, 4])) is None  # what is added is no weight
    assert node_work.kind_of("SomethingNew") == "other"


def test_products_of_bytes_are_int8() -> None:
    made = node_work.work("MatMulInteger", tensors([2, 3], [3, 4], dtype="uint8", size=1), tensors([2, 4]))
    assert made is not None
    assert (made.dtype, made.bytes) == ("int8", 6 + 12 + 32)


KNOWN = Ceilings(device="cores", flops={"float32": 1e11}, bandwidth=1e10, source="by hand")
FINAL = Recipe((Change("good"),))
ROW = Work(id="a", kind="matmul", name="a", calls=1, total_ns=9_000_000, flop={"float32": 8e8}, bytes=1e6)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    monkeypatch.setattr(recordings, "of_cores", lambda usable: KNOWN)
    return ScriptedModel(World({"good": 0.5}))


def measured(seconds: float) -> Measured:
    return Measured(step=seconds, samples=[[seconds] * 3])


def recorded_as(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    left = iter(answers)

    def recorded(*_: Any) -> Recorded:
        answer = next(left)
        if isinstance(answer, BaseException):
            raise answer
        return Recorded([answer], 1, 0.01)

    monkeypatch.setattr(recordings, "record", recorded)


def made(model: ScriptedModel, recipe: Recipe = FINAL) -> ModelBounds:
    sides = measured(0.010), measured(0.009)
    return recordings.model_bounds(model, recipe, Setup(batch=model.batch), sides)


def test_both_sides_are_recorded(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_as(monkeypatch, ROW, ROW)
    both = made(model)
    assert both.before is not None
    assert both.after is not None
    assert (both.before.word, both.before.call) == ("compute", 0.010)
    assert (both.after.word, both.after.call) == ("compute", 0.009)


def test_a_set_that_ran_in_several_instances_only_is_timed_now(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_as(monkeypatch, ROW, ROW)
    setup = Setup(instances=2, threads=1, batch=model.batch)
    both = recordings.model_bounds(model, FINAL, setup, (measured(0.010), measured(0.009)))
    assert both.after is not None
    assert both.after.call == pytest.approx(0.010, rel=0.05)  # half of the world's 20 ms, not the two at once


def test_where_nothing_was_kept_there_is_no_after(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_as(monkeypatch, ROW)
    assert made(model, Recipe()).after is None


@pytest.mark.parametrize(
    "harm", [TrialFailed("crashed", "no such profiler"), KeyError("ts"), RuntimeError("?")]
)
def test_a_bad_recording_says_so_and_fails_nothing(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch, harm: Exception
) -> None:
    recorded_as(monkeypatch, harm, ROW)
    both = made(model)
    assert both.before is not None
    assert both.after is not None
    assert both.before.word == ""
    assert "be recorded" in both.before.missing
    assert both.after.word == "compute"


def test_ctrl_c_ends_recording_and_nothing_else(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_as(monkeypatch, KeyboardInterrupt())
    both = made(model)
    assert both.after is not None
    assert "was interrupted" in both.after.missing


def test_nothing_is_recorded_where_no_time_is_left(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_as(monkeypatch)
    model.world.clock = model.request.budget - 1.0
    both = made(model)
    assert both.before is not None
    assert "the budget" in both.before.missing


def test_every_form_has_a_recorder() -> None:
    tables = [registry.load(ROOM, runtime).FORMS for runtime in registry.names(ROOM) if runtime != "process"]
    names = set().union(*tables)
    assert names | {"as_is"} == set(model_report.FORMS)
    assert {form_of(name).profiler for name in names} == set(recordings.READERS) == set(process.RECORDERS)


def test_ceilings_of_these_cores_are_measured_where_no_paper_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recordings, "BYTES", 2**16)
    monkeypatch.setattr(recordings, "SIZE", 64)
    monkeypatch.setattr(recordings, "cpu_peak", lambda *_, **__: None)
    known = recordings.of_cores(1.0)
    assert known.flops["float32"] > 1e6
    assert known.bandwidth is not None
    assert known.bandwidth > 1e6
    assert "measured" in known.source
    paper = SimpleNamespace(name="Zen 9", flops={"int8": 5.0}, note="on paper")
    monkeypatch.setattr(recordings, "cpu_peak", lambda *_, **__: paper)
    assert recordings.of_cores(1.0).flops == {"int8": 5.0}


def test_a_session_whose_calls_cannot_be_recorded_is_complete(
    model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_as(monkeypatch, *[TrialFailed("crashed", "no such profiler")] * 2)
    before, after = (Visited(call, [call] * 9, 1 / call, 1000) for call in (0.02, 0.01))
    sides = Pair(before, after)
    monkeypatch.setattr(ModelSubject, "pair", lambda *_: sides)
    monkeypatch.setattr(ModelSubject, "measure", lambda *_: None)
    monkeypatch.setattr(ModelSubject, "is_decided", lambda *_: True)
    tuning = Session(ModelSubject(model), LiveRun("tune", ignore)).run()
    assert tuning.ended == "complete"
    assert [each.name for each in tuning.recipe] == ["good"]
    assert tuning.speedup is not None
    assert tuning.model is not None
    assert tuning.model.bounds is not None
    assert tuning.model.bounds.after is not None
    assert "no such" in tuning.model.bounds.after.missing
    assert "record" in tuning.seconds_by
