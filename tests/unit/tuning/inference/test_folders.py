"""Folders of a small model: written, loaded elsewhere by `python -I`, gated, handed back."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from laptime.kit.errors import UsageError
from laptime.records.tuning import Tuning
from laptime.tuning.inference import arm_process, changes, folder_file
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.recording.recordings import record
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.loop_profile import unmet_need
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.race import RaceTerms, race

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MODEL = """
import torch

def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    return model, torch.randn(4, 3, 32, 32)

class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x, scale):
        return {"scores": self.layer(x) * scale, "scale": scale + 0}

def named():
    torch.manual_seed(0)
    return Named(), {"x": torch.randn(4, 8), "scale": torch.rand(4, 1)}

def bfloat16():
    model, images = build()
    return model.bfloat16(), images.bfloat16()

def float16():
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    return torch.nn.Sequential(*layers).half(), torch.randn(4, 8).half()

def noisy():
    return (lambda x: torch.rand_like(x)), torch.randn(4, 8)
"""

ELSEWHERE = """
import json, sys
sys.modules["laptime"] = None  # whoever imports it fails
sys.path.insert(0, sys.argv[1])
import numpy, torch, tuned
model = tuned.load()
calls, then = numpy.load(sys.argv[1] + "/calls.npz"), numpy.load(sys.argv[1] + "/outputs.npz")
for at, (batch, inputs, outputs) in enumerate(json.loads(str(calls["about"]))["calls"]):
    made = model(*[torch.from_numpy(calls[f"{at}_input_{place}"]) for place in range(inputs)])
    made = list(made.values()) if isinstance(made, dict) else [made]
    assert all(
        each.detach().numpy().tobytes() == then[f"{at}_{place}"].tobytes() for place, each in enumerate(made)
    )
print("bit for bit", at + 1)
"""


@pytest.fixture(scope="module")
def evaluators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelEvaluator]:
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.py").write_text(MODEL)
    made = {}
    for name in ("build", "named"):
        work = folder / name
        work.mkdir()
        made[name] = ModelEvaluator(ModelRequest(target=f"{folder}/model.py:{name}", goal="latency"), work)
    return made


OPTIONS: dict[str, dict[str, Any]] = {"threads": {"value": 1}, "graph_optimization": {"value": "BASIC"}}


def installed(name: str) -> bool:
    return all(map(find_spec, changes.load(name).packages))


@pytest.mark.parametrize("name", [name for name in changes.names() if name != "identity"])
def test_every_change_computes_what_its_class_promises(
    name: str, evaluators: dict[str, ModelEvaluator]
) -> None:
    evaluator = evaluators["build"]
    module = changes.load(name)
    below = (Change("onnxruntime"),) if "on_onnxruntime" in module.needs else ()
    facts = frozenset(evaluator.surveyed["facts"]).union(
        *(changes.load(each.name).given_facts for each in below)
    )
    if missing := [each for each in (name, *(change.name for change in below)) if not installed(each)]:
        pytest.skip(f"packages of {missing} are not here")
    if unmet := unmet_need(module.needs, facts):
        pytest.skip(unmet)
    change = Change(name, OPTIONS.get(name, {}))
    gate = evaluator.gate(Recipe(), Recipe((*below, change)), module.numerics)
    assert (gate.word, gate.numerics) == ("passed", module.numerics), gate


@pytest.mark.parametrize(
    ("kind", "names"), [("build", ("fold_batch_norm", "channels_last")), ("named", ("inference_mode",))]
)
def test_a_folder_runs_elsewhere_without_laptime_bit_for_bit(
    kind: str, names: tuple[str, ...], evaluators: dict[str, ModelEvaluator], tmp_path: Path
) -> None:
    evaluator, recipe = evaluators[kind], Recipe(tuple(map(Change, names)))
    gate = evaluator.gate(Recipe(), recipe, "reassociated")
    assert gate.word == "passed", gate
    place = folder_file.hand_back(evaluator, recipe, tmp_path / "fast", Tuning(gate=gate), run="r")
    (tmp_path / "elsewhere").mkdir()
    program = [sys.executable, "-I", "-B", "-c", ELSEWHERE, str(place)]
    done = subprocess.run(program, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bit for")
    assert folder_file.is_one(place / "recipe.json")
    assert [each.name for each in folder_file.read(place / "recipe.json").recipe] == list(names)
    (place / "calls.npz").unlink()
    with pytest.raises(UsageError, match="is incomplete"):
        folder_file.read(place / "recipe.json")


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_narrow_model_stays_in_its_type_and_others_hold_it_in_float32(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "work").mkdir()
    request = ModelRequest(target=f"{tmp_path}/model.py:{kind}", goal="latency")
    evaluator = ModelEvaluator(request, tmp_path / "work")
    for name in filter(installed, ("inference_mode", "onnxruntime", "openvino")):
        recipe = Recipe((Change(name),))
        gate = evaluator.gate(Recipe(), recipe, changes.load(name).numerics)
        assert gate.word == "passed", gate
        given = arm_process.inputs_in(evaluator.calls)[0]
        made = arm_process.load_model(evaluator.folders.ensure(recipe))(*given)
        assert (str(given[0].dtype), str(made.dtype)) == (f"torch.{kind}", f"torch.{kind}")
        place = folder_file.hand_back(evaluator, recipe, tmp_path / name, Tuning(gate=gate), run="r")
        assert f"takes: {kind}[" in (place / "README.md").read_text()


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_runtime_lives_in_an_environment_of_its_own(name: str, tmp_path: Path) -> None:
    """Another interpreter with the same packages: it writes, runs and records the folder."""
    for package in changes.load(name).packages:
        pytest.importorskip(package)
    venv.create(tmp_path / "env", with_pip=False)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "here.pth").write_text("\n".join(each for each in sys.path if each.endswith("-packages")))
    (tmp_path / "model.py").write_text(MODEL)
    request = ModelRequest(
        target=f"{tmp_path}/model.py:build", goal="latency", python=f"{name}={tmp_path / 'env'}"
    )
    evaluator, recipe = (
        ModelEvaluator(request, tmp_path),
        Recipe((Change(name), Change("threads", {"value": 1}))),
    )
    python = str(tmp_path / "env" / "bin" / "python")
    assert (evaluator.folders.python(recipe), evaluator.folders.python(Recipe())) == (python, "")
    gate = evaluator.gate(Recipe(), recipe, "reassociated")
    assert gate.word == "passed", gate
    with evaluator.arm(recipe) as arm:
        arm.wait()
        command = Path(f"/proc/{arm._peer.pid}/cmdline").read_bytes().split(b"\0")
    assert command[0].decode() == python
    assert record(evaluator, recipe).rows
    place = folder_file.hand_back(evaluator, recipe, tmp_path / "fast", Tuning(gate=gate), run="r")
    assert folder_file.read(place / "recipe.json").python == f"{name}={python}"


def test_a_compiled_folder_takes_inputs_of_any_layout_and_refuses_other_types(
    evaluators: dict[str, ModelEvaluator],
) -> None:
    """A package reads memory as what it was compiled for: gaps and other types gave wrong numbers."""
    torch = pytest.importorskip("torch")
    if "gcc" not in evaluators["build"].surveyed["facts"]:
        pytest.skip("there is no C++ compiler")
    evaluator = evaluators["build"]
    model = arm_process.load_model(evaluator.folders.ensure(Recipe((Change("compiled"),))))
    images = torch.randn(4, 3, 32, 32)
    right = model(images)
    laid = (images.to(memory_format=torch.channels_last), torch.stack([images, images], -1)[..., 0])
    assert all(torch.equal(model(each), right) for each in laid)
    for wrong in (images.double(), images.half(), images.int()):
        with pytest.raises(ValueError, match=r"not torch\.float32"):
            model(wrong)


def test_rounds_of_a_race_are_pairs_of_processes(evaluators: dict[str, ModelEvaluator]) -> None:
    evaluator = evaluators["build"]
    before = evaluator.accounting.trials
    rounds = evaluator.race(Recipe(), Recipe((Change("identity"),)), fresh=True)
    first, second = next(rounds), next(rounds)
    rounds.close()
    assert (first.process, second.process) == (0, 1)
    assert evaluator.accounting.trials - before == 4
    assert first.ratio > 0


def test_a_slow_folder_loses_its_race_and_a_broken_one_is_told(
    evaluators: dict[str, ModelEvaluator], tmp_path: Path
) -> None:
    evaluator = evaluators["build"]
    for name, text in {
        "slow": "import time\n\ndef load():\n    return lambda x: time.sleep(0.05)\n",
        "broken": "def load():\n    raise ValueError('no weights')\n",
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tuned.py").write_text(text)
        (folder / "recipe.json").write_text(json.dumps({"settings": {}}))
        evaluator.folders.adopt(Recipe((Change(name),)), folder, "exported")
    result = race(evaluator.race(Recipe(), Recipe((Change("slow"),))), RaceTerms(looks=(3, 5)))
    assert result.word == "slower"
    with pytest.raises(TrialFailed, match="no weights"):
        next(evaluator.race(Recipe(), Recipe((Change("broken"),))))


def test_a_model_that_draws_its_outputs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    with pytest.raises(UsageError) as refused:
        ModelEvaluator(ModelRequest(target=f"{tmp_path}/model.py:noisy"), tmp_path)
    assert "differ each time" in refused.value.why


SAMPLES = """
import torch

def samples():
    for at in range(5):
        yield {"scale": torch.rand(3, 1), "x": torch.randn(3, 8)}

def sums(outputs):
    return [float(each["scores"].sum()) for each in outputs]

def wide():
    yield torch.randn(3, 9)
"""


def test_samples_and_a_metric_of_the_user_decide(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "data.py").write_text(SAMPLES)
    given: dict[str, Any] = {"inputs": f"{tmp_path}/data.py:samples", "metric": f"{tmp_path}/data.py:sums"}
    evaluator = ModelEvaluator(ModelRequest(target=f"{tmp_path}/model.py:named", **given), tmp_path)
    assert (evaluator.batch, evaluator.surveyed["samples"]) == (3, 5)
    assert [call.batch for call in evaluator.recorded.calls] == [3, 3, 3, 3, 3, 1, 4]
    recipe = Recipe((Change("inference_mode"),))
    gate = evaluator.gate(Recipe(), recipe, "exact")
    assert gate.word == "passed", gate
    assert [check.outcome for check in gate.checks if check.name == "metric"] == ["kept"]
    place = folder_file.hand_back(evaluator, recipe, tmp_path / "fast", Tuning(gate=gate), run="r")
    assert folder_file.read(place / "recipe.json").metric == given["metric"]


def test_samples_that_the_model_refuses_are_told(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "data.py").write_text(SAMPLES)
    request = ModelRequest(target=f"{tmp_path}/model.py:build", inputs=f"{tmp_path}/data.py:wide")
    with pytest.raises(UsageError) as told:
        ModelEvaluator(request, tmp_path)
    assert "float32[3, 9]" in told.value.why
