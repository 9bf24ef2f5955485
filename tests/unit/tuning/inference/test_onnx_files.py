"""ONNX files as targets: surveyed, written as folders, raced, gated and handed back without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from fixtures import onnx_files
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import RecordedCalls
from laptime.records.tuning import Tuning
from laptime.tuning.inference import folder_file, survey
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest, check, is_model
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe

ELSEWHERE = """
import sys
sys.modules["laptime"] = sys.modules["torch"] = None  # whoever imports one of them fails
sys.path.insert(0, sys.argv[1])
import numpy, tuned
calls, then = numpy.load(sys.argv[1] + "/calls.npz"), numpy.load(sys.argv[1] + "/outputs.npz")
made = tuned.load()(calls["0_input_0"])
assert made.tobytes() == then["0_0"].tobytes()
print("bit for bit", made.shape)
"""


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> ModelEvaluator:
    folder = tmp_path_factory.mktemp("onnx")
    target = str(onnx_files.save(folder / "net.onnx"))
    request = ModelRequest(target=target, goal="latency", batch=2)
    check(request)
    return ModelEvaluator(request, folder)


def test_a_file_is_surveyed_as_it_is(evaluator: ModelEvaluator) -> None:
    surveyed = evaluator.surveyed
    assert (surveyed["batch"], surveyed["varies"], surveyed["outputs"]) == (2, [True], None)
    assert [call.batch for call in evaluator.recorded.calls] == [2, 2, 1, 3, 2, 2, 2]
    assert evaluator.recorded.calls[0].inputs[0].shape == (2, 3, 8, 8)
    assert {"onnx_file", "on_onnxruntime"} <= set(surveyed["facts"])


def test_what_is_pytorchs_own_says_why_it_is_not_tried(evaluator: ModelEvaluator) -> None:
    found = evaluator.candidates(
        LoopProfile(step=0.01, cpus=2, facts=frozenset(evaluator.surveyed["facts"])), Recipe()
    )
    assert "PyTorch" in found.ruled_out["channels_last"]
    assert "ONNX file" in found.ruled_out["onnxruntime"]
    assert {"threads", "graph_optimization"} <= {each.change.name for each in found.usable}


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        (Change("threads", {"value": 1}), Change("graph_optimization", {"value": "BASIC"})),
        (Change("openvino"),),
    ],
)
def test_a_folder_of_a_file_needs_neither_laptime_nor_torch(
    recipe: tuple[Change, ...], evaluator: ModelEvaluator, tmp_path: Path
) -> None:
    if recipe[0].name == "openvino":
        pytest.importorskip("openvino")
    gate = evaluator.gate(Recipe(), Recipe(recipe), "reassociated")
    assert gate.word == "passed", gate
    place = folder_file.hand_back(evaluator, Recipe(recipe), tmp_path / "fast", Tuning(gate=gate), run="r")
    program = [sys.executable, "-I", "-B", "-c", ELSEWHERE, str(place)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "bit for bit (2, 5)\n"
    assert Path(folder_file.read(place / "recipe.json").target).is_absolute()


def test_sizes_that_stay_open_need_samples(tmp_path: Path) -> None:
    target = str(onnx_files.tokens(tmp_path / "tokens.onnx"))
    with pytest.raises(UsageError) as refused:
        ModelEvaluator(ModelRequest(target=target), tmp_path)
    assert refused.value.next.startswith("--inputs data.py:samples")
    (tmp_path / "data.py").write_text(
        "import numpy as np\ndef samples():\n    return [{'ids': np.ones((2, 7), np.int64)}] * 3\n"
    )
    work = tmp_path / "work"
    work.mkdir()
    evaluator = ModelEvaluator(ModelRequest(target=target, inputs=f"{tmp_path}/data.py:samples"), work)
    assert evaluator.recorded.calls[0].outputs[0].shape == (2, 7, 2)
    assert (evaluator.surveyed["batch"], evaluator.surveyed["samples"]) == (2, 3)


def test_weights_outside_the_file_come_along(tmp_path: Path) -> None:
    import onnx

    file = onnx_files.save(tmp_path / "net.onnx")
    onnx.save(
        onnx.load(str(file)), str(file), save_as_external_data=True, location="weights", size_threshold=0
    )
    evaluator = ModelEvaluator(ModelRequest(target=str(file)), tmp_path)
    folder = evaluator.folders.ensure(Recipe())
    assert {each.name for each in folder.iterdir()} == {"model.onnx", "weights", "tuned.py", "recipe.json"}


def test_a_missing_file_is_a_model_that_is_missing() -> None:
    assert is_model("nowhere.onnx")


def test_words_of_a_file_go_beyond_0_and_1(tmp_path: Path) -> None:
    """Whole numbers that laptime makes for a file are 0 and 1; a gate that tried no others saw nothing."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = numpy_helper.from_array(np.arange(50, dtype=np.float32), "table")
    words = helper.make_tensor_value_info("words", TensorProto.INT64, ["batch", 6])
    found = helper.make_tensor_value_info("found", TensorProto.FLOAT, ["batch", 6])
    node = helper.make_node("Gather", ["table", "words"], ["found"])
    graph = helper.make_graph([node], "g", [words], [found], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(tmp_path / "net.onnx"))
    calls, calibration = tmp_path / "calls.npz", tmp_path / "first.npz"
    survey.survey(
        target=str(tmp_path / "net.onnx"), batch=2, samples="", calls=str(calls), calibration=str(calibration)
    )
    reached = [int(call.inputs[0].max()) for call in RecordedCalls.load(calls).calls]
    assert max(reached) == 31  # the largest power of two that fits into the table, less one
