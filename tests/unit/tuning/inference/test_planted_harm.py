"""Planted harm is refused by name, on five models of different kind; what is sound passes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from laptime.backends.torch.tensors import arrays  # noqa: E402
from laptime.measure.recorded_calls import RecordedCalls, record  # noqa: E402
from laptime.records.tuning import Gate  # noqa: E402
from laptime.tuning.inference import arm_process  # noqa: E402
from laptime.tuning.inference.sameness import sameness  # noqa: E402

pytestmark = pytest.mark.torch


class Branching(nn.Module):
    """Takes another way where the mean of its input is small; normalises by a number read from the data."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(8, 5), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        layer = self.one if float(x[0, 0]) > 0 else self.other
        return layer(x) / float(x.abs()[:, 0].mean())


class TwoInputs(nn.Module):
    """A table of tokens, weighed by a second input; gives a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 16), nn.Linear(16, 6)

    def forward(self, tokens: Any, weights: Any) -> Any:
        mixed = (self.table(tokens) * weights.unsqueeze(-1)).sum(1)
        return {"scores": self.head(mixed), "mixed": mixed}


def _settled(module: Any, *inputs: Any) -> Any:
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        module.train()(*inputs)
    return module.eval()


def _model(kind: str) -> tuple[Any, Callable[[int], list[Any]]]:
    torch.manual_seed(3)
    draw = torch.randn
    if kind == "convolutions":
        layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
        module = nn.Sequential(*layers, nn.Linear(32, 10))
        inputs = draw(4, 3, 12, 12)
        return _settled(module, inputs), lambda batch: [inputs[:batch]]
    if kind == "dropout":
        inputs = draw(4, 20)
        module = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 7)).eval()
        return module, lambda batch: [inputs[:batch]]
    if kind == "attention":
        inputs = draw(4, 6, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        return nn.Sequential(layer, nn.Linear(16, 9)).eval(), lambda batch: [inputs[:batch]]
    if kind == "branches":
        inputs = draw(4, 8)
        return Branching().eval(), lambda batch: [inputs[:batch]]
    tokens, weights = torch.randint(0, 50, (4, 5)), torch.rand(4, 5)
    return TwoInputs().eval(), lambda batch: [tokens[:batch], weights[:batch]]


KINDS = ("convolutions", "dropout", "attention", "branches", "two inputs")


def _mapped(change: Callable[[Any], Any], output: Any) -> Any:
    if isinstance(output, dict):
        return {key: change(value) for key, value in output.items()}
    return change(output)


def _of_outputs(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda module: lambda *given: _mapped(change, module(*given))


def _cached(module: Any) -> Any:
    held: list[Any] = []

    def call(*given: Any) -> Any:
        held.append(module(*given))
        return held[0] if held[0] is held[-1] or _size(held[0]) == _size(held[-1]) else held[-1]

    return call


def _size(output: Any) -> Any:
    first = next(iter(output.values())) if isinstance(output, dict) else output
    return first.shape


def _mutating(module: Any) -> Any:
    def call(*given: Any) -> Any:
        output = module(*given)
        given[0].add_(1)
        return output

    return call


def _calibrated_only(module: Any) -> Any:
    """Right on the first inputs it sees, and an average elsewhere."""
    seen: list[Any] = []

    def call(*given: Any) -> Any:
        seen.append(given)
        right = all(torch.equal(a, b) for a, b in zip(given, seen[0], strict=True) if a.shape == b.shape)
        output = module(*given)
        return output if right else _mapped(lambda each: each * 0 + each.mean(), output)

    return call


def _baked_batch(module: Any) -> Any:
    sizes: list[int] = []

    def call(*given: Any) -> Any:
        sizes.append(len(given[0]))
        if sizes[-1] != sizes[0]:
            raise RuntimeError(f"expected batch {sizes[0]}, got {sizes[-1]}")
        return module(*given)

    return call


def _repeated_item(module: Any) -> Any:
    """Computes the first item only, and gives it for all: a batch of one baked in."""
    return lambda *given: _mapped(
        lambda each: each.expand(len(given[0]), *each.shape[1:]).clone(), module(*(x[:1] for x in given))
    )


def _coarse(module: Any) -> Any:
    """The range of outputs taken from a constant input: all else is clipped."""

    def call(*given: Any) -> Any:
        constant = [torch.full_like(x, 0.01 if x.is_floating_point() else 1) for x in given]
        limit = _mapped(lambda each: each.abs().mean() / 4, module(*constant))
        output = module(*given)
        if isinstance(output, dict):
            return {key: value.clamp(-limit[key], limit[key]) for key, value in output.items()}
        return output.clamp(-limit, limit)

    return call


def _state(module: Any) -> Any:
    calls: list[int] = []

    def call(*given: Any) -> Any:
        calls.append(1)
        return _mapped(lambda each: each + 1e-6 * len(calls), module(*given))

    return call


def _wrong_eps(module: Any) -> Any:
    wrong = copy.deepcopy(module)
    for part in wrong.modules():
        if hasattr(part, "eps"):
            part.eps = 0.1
    return wrong


def _frozen_branch(module: Any) -> Any:
    wrong = copy.deepcopy(module)
    wrong.one = wrong.other
    return wrong


def _constant(module: Any) -> Any:
    """The number read from the data at the first call stands in all others."""
    scales: list[float] = []

    def call(x: Any) -> Any:
        own = float(x.abs()[:, 0].mean())
        scales.append(own)
        return module(x) * own / scales[0]

    return call


def _second_dropped(module: Any) -> Any:
    return lambda tokens, weights: module(tokens, torch.ones_like(weights) / 2)


def _one_buffer(module: Any) -> Any:
    """All calls write to the same memory, as a CUDA graph's do whose outputs are not copied."""
    held: dict[Any, list[Any]] = {}

    def call(*given: Any) -> Any:
        output = module(*given)
        made = list(arm_process.leaves(output))
        for ours, new in zip(held.setdefault(tuple(made[0].shape), made), made, strict=True):
            ours.copy_(new)
        rest = iter(held[tuple(made[0].shape)])
        return _mapped(lambda each: next(rest), output)

    return call


def _without_gaps(module: Any) -> Any:
    """Reads memory as if inputs had no gaps, as a compiled package does."""
    return lambda *given: module(*(x.as_strided(x.shape, torch.empty(x.shape).stride()) for x in given))


GENERAL: dict[str, Callable[[Any], Any]] = {
    "zeros": _of_outputs(torch.zeros_like),
    "sign flipped": _of_outputs(torch.neg),
    "classes permuted": _of_outputs(lambda each: each.roll(1, -1)),
    "cached output": _cached,
    "range calibrated on constants": _coarse,
    "overflow to inf": _of_outputs(lambda each: each * float("inf")),
    "NaN": _of_outputs(lambda each: each * float("nan")),
    "scaled by a thousandth": _of_outputs(lambda each: each * 1.001),
    "inputs mutated": _mutating,
    "right on the calibration inputs only": _calibrated_only,
    "batch size baked in": _baked_batch,
    "first item for all": _repeated_item,
    "random": _of_outputs(torch.randn_like),
    "state between calls": _state,
    "outputs overwritten": _one_buffer,
    "gaps in memory ignored": _without_gaps,
    "bfloat16 undeclared": _of_outputs(lambda each: each.bfloat16().float()),
}
SPECIAL: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("convolutions", "batch norm in training mode", lambda module: copy.deepcopy(module).train()),
    ("convolutions", "wrong eps in folding", _wrong_eps),
    ("dropout", "dropout in training mode", lambda module: copy.deepcopy(module).train()),
    ("attention", "wrong eps", _wrong_eps),
    ("branches", "a branch frozen", _frozen_branch),
    ("branches", "a constant baked in", _constant),
    ("two inputs", "second input dropped", _second_dropped),
]
NAMES = {
    "inputs mutated": "inputs",
    "right on the calibration inputs only": "held_out_inputs",
    "state between calls": "repeated",
    "outputs overwritten": "repeated",
    "gaps in memory ignored": "layout",
    "overflow to inf": "finite",
    "NaN": "finite",
}
"""By harm, the check that has to name it; others are told by the outputs themselves."""


@cache
def _recorded(kind: str) -> tuple[Any, RecordedCalls]:
    """A model and its calls, for all harms: each wraps the model or a copy of it."""
    module, make = _model(kind)

    def run(given: list[Any]) -> list[Any]:
        with torch.no_grad():
            return arrays(module(*map(torch.from_numpy, given)))

    return module, record(run, lambda batch: arrays(make(batch)), [4, 1])


def _gate(
    model: Any,
    recorded: RecordedCalls,
    folder: Path,
    *,
    numerics: str = "reassociated",
    precision: str = "",
    about: Any = None,
    threads: int = 0,
) -> Gate:
    calls = folder / "calls.npz"
    recorded.save(calls)
    with torch.no_grad():
        answer = arm_process.outputs(
            model, arm_process.inputs_in(calls), str(folder / "made.npz"), threads=threads
        )
    return sameness(
        recorded, folder / "made.npz", answer, numerics=numerics, precision=precision, about=about
    )[0]


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_process, "CALLS", 8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", GENERAL)
def test_planted_harm_is_refused(kind: str, harm: str, tmp_path: Path) -> None:
    module, recorded = _recorded(kind)
    gate = _gate(GENERAL[harm](module), recorded, tmp_path)
    assert gate.word == "failed", gate
    failed = [check.name for check in gate.checks if check.outcome == "broken"]
    assert NAMES.get(harm, failed[0]) in failed


def test_a_block_of_calls_whose_last_output_is_another_is_a_failure() -> None:
    made: list[int] = []

    def late(x: Any) -> Any:
        made.append(1)
        return -x if len(made) > 1000 else x + 0

    host, x = arm_process.device_named("cpu"), torch.ones(3)
    for _ in range(2):
        assert len(arm_process.time_calls(late, [x], 400, device=host)["seconds"]) == 400
    with pytest.raises(RuntimeError, match="400 more calls"):
        arm_process.time_calls(late, [x], 400, device=host)
    # What changes its own inputs is told by the gate; as the model as it is, it is nobody's fault.
    assert arm_process.time_calls(lambda x: x.add_(1), [torch.ones(3)], 5, device=host)["seconds"]


ABOUT = {"outputs": ["scores", "mixed"], "types": ["float32", "float32"]}
"""Of the model of two inputs."""


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda made: {**made, "scores": made["scores"].double()}, "types"),
        (lambda made: {"logits": made["scores"], "mixed": made["mixed"]}, "names"),
        (lambda made: tuple(made.values()), "names"),
        (lambda made: {"scores": made["mixed"], "mixed": made["scores"]}, "outputs"),
        (lambda made: {"mixed": made["mixed"], "scores": made["scores"]}, ""),
    ],
)
def test_names_and_types_count_and_the_order_of_a_dict_does_not(
    change: Callable[[Any], Any], check: str, tmp_path: Path
) -> None:
    module, recorded = _recorded("two inputs")
    gate = _gate(lambda *given: change(module(*given)), recorded, tmp_path, about=ABOUT)
    assert [each.name for each in gate.checks if each.outcome == "broken"][:1] == [check] * bool(check), gate


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda made: (made, None), ""),
        (lambda made: (None, made), "names"),
        (lambda made: (made,), "names"),
        (lambda made: made, "names"),
    ],
)
def test_none_stays_where_it_was(change: Callable[[Any], Any], check: str, tmp_path: Path) -> None:
    module, recorded = _recorded("branches")
    about = {"outputs": ["", None], "types": ["float32"]}
    gate = _gate(lambda *given: change(module(*given)), recorded, tmp_path, about=about)
    assert [each.name for each in gate.checks if each.outcome == "broken"][:1] == [check] * bool(check), gate


@pytest.mark.parametrize(("inside", "word"), [(np.float32, "failed"), (np.float64, "passed")])
def test_a_model_in_double_precision_is_not_computed_in_single(
    inside: Any, word: str, tmp_path: Path
) -> None:
    weights = np.random.default_rng(0).standard_normal((6, 4))

    def model(given: list[Any], dtype: Any = np.float64) -> list[Any]:
        return [np.tanh(given[0].astype(dtype) @ weights.astype(dtype)).astype(np.float64)]

    recorded = record(model, lambda batch: [np.random.default_rng(1).standard_normal((batch, 6))], [4, 1])
    gate = _gate(lambda x: torch.from_numpy(model([x.numpy()], inside)[0]), recorded, tmp_path)
    assert gate.word == word, gate


@pytest.mark.parametrize("number", [101, 50])
def test_what_is_wrong_late_or_rarely_is_refused(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arm_process, "CALLS", 300)
    monkeypatch.setattr(arm_process, "SECONDS", 30.0)
    module, recorded = _recorded("branches")
    made: list[int] = []

    def call(*given: Any) -> Any:
        made.append(1)
        is_wrong = len(made) > number if number == 101 else len(made) % number == 0
        return module(*given) * (1 + is_wrong)

    gate = _gate(call, recorded, tmp_path)
    assert [each.name for each in gate.checks if each.outcome == "broken"] == ["late"], gate


def test_calls_of_several_threads_that_disturb_each_other_are_refused(tmp_path: Path) -> None:
    module, recorded = _recorded("branches")
    held: dict[str, Any] = {}

    def shared(x: Any) -> Any:
        held["x"] = x
        time.sleep(0.001)
        return module(held["x"])

    gate = _gate(shared, recorded, tmp_path, threads=4)
    assert [each.name for each in gate.checks if each.outcome == "broken"] == ["threads"], gate
    assert _gate(module, recorded, tmp_path, threads=4).word == "passed"


def _right_shapes_and_no_nan(outputs: list[Any], reference: list[Any]) -> bool:
    """What AITune asks of outputs, by its description: the shape, and no NaN. These three pass it."""
    return all(
        one.shape == other.shape and one.dtype == other.dtype and not np.isnan(one).any()
        for one, other in zip(outputs, reference, strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", ["zeros", "random", "sign flipped"])
def test_what_a_check_of_shapes_lets_pass_is_refused(kind: str, harm: str, tmp_path: Path) -> None:
    module, recorded = _recorded(kind)
    wrong = GENERAL[harm](module)
    with torch.no_grad():
        made = arrays(wrong(*map(torch.from_numpy, recorded.calls[0].inputs)))
    assert _right_shapes_and_no_nan(made, recorded.calls[0].outputs)
    gate = _gate(wrong, recorded, tmp_path)
    assert (gate.word, gate.checks[1].name, gate.checks[1].outcome) == ("failed", "outputs", "broken")


@pytest.mark.parametrize(("kind", "harm", "change"), SPECIAL)
def test_harm_of_one_kind_of_model_is_refused(
    kind: str, harm: str, change: Callable[[Any], Any], tmp_path: Path
) -> None:
    module, recorded = _recorded(kind)
    assert _gate(change(module), recorded, tmp_path).word == "failed"


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_itself_passes_bit_for_bit(kind: str, tmp_path: Path) -> None:
    module, recorded = _recorded(kind)
    gate = _gate(module, recorded, tmp_path, numerics="exact")
    assert gate.word == "passed", gate


@pytest.mark.parametrize("kind", ["convolutions", "dropout", "attention", "two inputs"])
def test_rounding_passes_as_reassociated_and_never_as_exact(kind: str, tmp_path: Path) -> None:
    module, recorded = _recorded(kind)
    double = copy.deepcopy(module).double()

    def call(*given: Any) -> Any:
        cast = [x.double() if x.is_floating_point() else x for x in given]
        return _mapped(lambda each: each.float(), double(*cast))

    for numerics in ("reassociated", "exact"):
        gate = _gate(call, recorded, tmp_path, numerics=numerics)
        assert (gate.word, gate.numerics) == ("passed", "reassociated")
    assert _gate(module, recorded, tmp_path, numerics="exact").numerics == "exact"


def test_bfloat16_passes_where_it_is_declared(tmp_path: Path) -> None:
    module, recorded = _recorded("convolutions")
    half = copy.deepcopy(module).bfloat16()
    declared: dict[str, Any] = {"numerics": "precision", "precision": "bfloat16"}
    assert _gate(lambda x: half(x.bfloat16()).float(), recorded, tmp_path, **declared).word == "passed"
    zeros = GENERAL["zeros"](module)
    assert _gate(zeros, recorded, tmp_path, **declared).word == "failed"
