"""Models that people bring are taken, or refused in a sentence; see `benchmarks/brought_models.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from laptime.kit.errors import UsageError, UserCodeError
from laptime.measure.recorded_calls import RecordedCalls
from laptime.tuning.inference import arm_process
from laptime.tuning.inference.building import write_folder
from laptime.tuning.inference.draft import Draft, by_position, load_target
from laptime.tuning.inference.runtimes.pytorch import graph_of, write_exported
from laptime.tuning.inference.sameness import sameness
from laptime.tuning.inference.survey import survey

pytestmark = pytest.mark.torch
MODELS = Path(__file__).resolve().parents[4] / "benchmarks" / "_brought_models.py"
NESTED = "its outputs are neither a tensor nor a flat tuple or dict of tensors"


def surveyed(function: str, folder: Path, file: Path = MODELS) -> str:
    """Why it is refused; "" if it is not."""
    paths = {name: str(folder / f"{name}.npz") for name in ("calls", "calibration")}
    refused: str = survey(target=f"{file}:{function}", batch=0, samples="", **paths)["refused"]
    return refused


@pytest.mark.parametrize(
    "function",
    ["quantised", "scripted", "boxes_above_a_score", "complex_outputs", "in_bfloat16", "mixture_of_experts"],
)
def test_unusual_models_are_taken(function: str, tmp_path: Path) -> None:
    assert surveyed(function, tmp_path) == ""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("language_model_with_cache", NESTED),
        ("random_outputs", "the reference's outputs differ each time"),
    ],
)
def test_others_are_refused_in_a_sentence(function: str, why: str, tmp_path: Path) -> None:
    assert surveyed(function, tmp_path).startswith(why)


def test_a_list_of_images_reaches_the_model_as_a_list(tmp_path: Path) -> None:
    """It was called with the only tensor in it, and said so in a traceback."""
    pytest.importorskip("torchvision")
    assert surveyed("detector_of_torchvision", tmp_path) == f"{NESTED}: tuple of dict"


NARROW = """
import torch

def build(dtype):
    return torch.nn.Linear(6, 4).to(dtype), torch.randn(3, 6).to(dtype)

def double():
    return build(torch.float64)

def half():
    return build(torch.float16)

def bfloat16():
    return build(torch.bfloat16)

def changing():
    return (lambda x: x.relu_() * 2), torch.randn(4, 3)

def additive():
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 3)
    def call(x, mask):
        return (x @ x.transpose(1, 2) / 3 + mask).softmax(-1) @ layer(x)
    return call, (torch.randn(2, 6, 8), torch.zeros(2, 1, 6))

def sparse():
    return (lambda x: torch.sparse.sum(x, 1).to_dense()), torch.eye(4).to_sparse()

def zeros():
    table, weights = torch.nn.Embedding(40, 4), torch.nn.Parameter(torch.randn(4))
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.weights = table, weights
        def forward(self, words, mask):
            return (self.table(words) * mask.unsqueeze(-1)).sum(1), None
    return Words(), (torch.zeros(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.int64))
"""


@pytest.mark.parametrize(
    ("function", "kind", "precision"),
    [("double", "float64", "float32"), ("half", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16")],
)
def test_a_model_is_called_and_compared_in_its_own_type(
    function: str, kind: str, precision: str, tmp_path: Path
) -> None:
    """Narrower ones were tuned in float32: the gain was that over another model."""
    (tmp_path / "model.py").write_text(NARROW)
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("calls", "calibration")}
    about = survey(target=f"{tmp_path / 'model.py'}:{function}", batch=0, samples="", **paths)
    assert (about["refused"], about["types"], about["precision"]) == ("", [kind], precision)
    recorded = RecordedCalls.load(tmp_path / "calls.npz")
    assert recorded.types == [kind]
    (given,) = arm_process.inputs_in(tmp_path / "calls.npz")[0]
    assert str(given.dtype) == f"torch.{kind}"
    assert recorded.calls[0].outputs[0].dtype == (np.float32 if kind == "bfloat16" else kind)


def test_words_that_are_all_zero_fill_their_table_and_a_mask_does_not(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(NARROW)
    assert surveyed("zeros", tmp_path, tmp_path / "model.py") == ""
    calls = RecordedCalls.load(tmp_path / "calls.npz").calls
    assert max(call.inputs[0].max() for call in calls) == 39
    assert {number for call in calls for number in call.inputs[1].ravel()} == {0, 1}


def test_a_model_that_changes_its_inputs_may_be_followed_in_that(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(NARROW)
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("calls", "calibration")}
    about = survey(target=f"{tmp_path / 'model.py'}:changing", batch=0, samples="", **paths)
    recorded, calls = (
        RecordedCalls.load(tmp_path / "calls.npz"),
        arm_process.inputs_in(tmp_path / "calls.npz"),
    )
    answer = arm_process.outputs(lambda x: x.relu_() * 2, calls, str(tmp_path / "made.npz"), threads=0)
    told: dict[str, Any] = {"numerics": "exact", "precision": "float32"}
    assert sameness(recorded, tmp_path / "made.npz", answer, about=about, **told)[0].word == "passed"
    other = sameness(recorded, tmp_path / "made.npz", answer, about={**about, "changes": False}, **told)[0]
    assert (other.word, other.reason.partition(":")[0]) == ("failed", "inputs")


def test_lengths_that_cannot_be_open_are_fixed_and_the_model_is_exported_all_the_same(tmp_path: Path) -> None:
    """What had marked the tensors as open failed the second try, too: GRUs of torch.export were refused."""
    torch = pytest.importorskip("torch")
    layer, given = torch.nn.GRU(4, 6, batch_first=True).eval(), [torch.randn(3, 5, 4), torch.zeros(1, 3, 6)]
    lengths = [["n3", "n5", ""], ["", "n3", ""]]
    draft = Draft(layer, given, [False, False], [], tmp_path / "none.npz", lengths=lengths)
    graph = graph_of(draft).module()
    assert draft.settings["takes"] == [[3, 5, 4], [1, 3, 6]]
    assert all(map(torch.equal, graph(*given), layer(*given)))


def test_a_folder_refuses_sizes_that_differ_where_the_model_needs_them_to_be_equal(tmp_path: Path) -> None:
    """A compiled package read memory that was not its own: its sizes are those of the first input."""
    import torch

    class Masked(torch.nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return (x * mask).sum(1)

    given, lengths = [torch.randn(2, 5), torch.ones(2, 5)], [["", "n5"], ["", "n5"]]
    draft = Draft(Masked(), given, [True, True], None, tmp_path / "none.npz", lengths=lengths)
    draft.settings["outputs"] = None
    write_exported(draft, tmp_path)
    one, other = draft.settings["takes"]
    assert one == other
    assert not any(isinstance(size, int) for size in one)
    write_folder(tmp_path, "torch_cpu", draft.settings, target="", recipe=[])
    model = arm_process.load_model(tmp_path)
    assert torch.equal(model(torch.ones(3, 7), torch.ones(3, 7)), torch.full((3,), 7.0))
    for x, mask in (
        ((3, 7), (3, 6)),
        ((3, 7), (2, 7)),
        ((0, 7), (0, 7)),
        ((3, 7), (3,)),
        ((3, 7), (3, 7, 1)),
    ):
        with pytest.raises(ValueError, match="names are any size but 0"):
            model(torch.ones(x), torch.ones(mask))


def test_an_input_of_zeros_has_no_range_that_int8_is_excused_beyond(tmp_path: Path) -> None:
    """A mask that is added was calibrated on zeros, and all others were beyond that: ignoring it passed."""
    (tmp_path / "model.py").write_text(NARROW)
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("calls", "calibration")}
    about = survey(target=f"{tmp_path / 'model.py'}:additive", batch=0, samples="", **paths)
    recorded, calls = (
        RecordedCalls.load(tmp_path / "calls.npz"),
        arm_process.inputs_in(tmp_path / "calls.npz"),
    )
    model, words = load_target(f"{tmp_path / 'model.py'}:additive"), list[str]()
    module, _ = by_position(model, 2)
    for folder in (module, lambda x, mask: module(x, 0 * mask)):
        answer = arm_process.outputs(folder, calls, str(tmp_path / "made.npz"), threads=0)
        told: dict[str, Any] = {"numerics": "precision", "precision": "int8", "about": about}
        words.append(sameness(recorded, tmp_path / "made.npz", answer, **told)[0].reason.partition(":")[0])
    assert words[0].endswith("recorded calls")
    assert words[1] == "held out inputs"


def test_sparse_inputs_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(NARROW)
    with pytest.raises(UsageError, match="it takes sparse tensors"):
        surveyed("sparse", tmp_path, tmp_path / "model.py")


def test_a_model_that_fails_says_which_inputs_it_was_called_with(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\ndef build():\n    return torch.nn.Linear(3, 2), torch.ones(4, 5)\n"
    )
    with pytest.raises(UserCodeError) as raised:
        surveyed("build", tmp_path, tmp_path / "model.py")
    assert "not run" in raised.value.what
    assert "float32[4, 5]: RuntimeError" in raised.value.why
