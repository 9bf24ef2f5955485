"""Exports that compute something else, and exports that are sound: which of them are called the same?

The exported model is played by torch itself, so that every machine can try it; what is judged is what
`laptime bench --backend torch,onnxruntime` judges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch

from laptime.analysis.agreement import agreement, verdict  # noqa: E402

Model = Any
Change = Callable[[Model], Callable[[Any], Any]]


class Heads(nn.Module):  # type: ignore[misc]
    """Two outputs of different size, a norm, a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.drop = nn.Dropout(0.2)
        self.classes, self.value = nn.Linear(128, 10), nn.Linear(128, 1)

    def forward(self, x: Any) -> Any:
        y = self.drop(self.body(x))
        return self.classes(y), self.value(y)


def model() -> Model:
    """With settled statistics."""
    torch.manual_seed(0)
    made = Heads().train()
    with torch.no_grad():
        for _ in range(20):
            made(torch.randn(16, 3, 16, 16) * 2 + 1)
    return made.eval()


def changed(change: Callable[[Model], None]) -> Change:
    """A copy of the model, changed in place."""

    def make(original: Model) -> Model:
        other = copy.deepcopy(original)
        with torch.no_grad():
            change(other)
        return other

    return make


def after(change: Callable[..., Any]) -> Change:
    """The model's outputs, changed."""
    return lambda original: lambda x: change(*original(x))


def _cached(original: Model) -> Callable[[Any], Any]:
    kept: list[Any] = []

    def call(x: Any) -> Any:
        kept.append(original(x))
        return kept[0] if kept[0][0].shape == kept[-1][0].shape else kept[-1]

    return call


DIFFERENT: dict[str, Change] = {
    "value times 50": after(lambda a, b: (a, 50 * b)),
    "sign flipped": after(lambda a, b: (-a, b)),
    "zeros": after(lambda a, b: (torch.zeros_like(a), torch.zeros_like(b))),
    "classes permuted": after(lambda a, b: (a.roll(1, dims=1), b)),
    "softmax left in": after(lambda a, b: (a.softmax(1), b)),
    "overflow": after(lambda a, b: (a / 0, b)),
    "bias lost": changed(lambda m: m.value.bias.zero_()),
    "eps of the norm": changed(lambda m: setattr(m.body[1], "eps", 0.1)),
    "norm in training mode": changed(lambda m: m.body[1].train()),
    "dropout in training mode": changed(lambda m: m.drop.train()),
    "one weight lost": changed(lambda m: m.classes.weight[0].zero_()),
    "the last output, cached": _cached,
}


def folded(original: Model) -> Model:
    """Batch norm folded into the convolution."""
    other = copy.deepcopy(original)
    other.body[0] = torch.nn.utils.fusion.fuse_conv_bn_eval(other.body[0], other.body[1])
    other.body[1] = nn.Identity()
    return other


def in_dtype(dtype: Any) -> Change:
    """Weights and activations in another dtype."""

    def make(original: Model) -> Callable[[Any], Any]:
        other = copy.deepcopy(original).to(dtype)
        return lambda x: [y.float() for y in other(x.to(dtype))]

    return make


def in_halves(original: Model) -> Callable[[Any], Any]:
    """Each sample by itself."""
    return lambda x: [torch.cat(part) for part in zip(*(original(one) for one in x.split(1)), strict=True)]


SOUND: dict[str, tuple[str, Change]] = {
    "itself": ("float32", lambda original: original),
    "copied": ("float32", changed(lambda m: None)),
    "folded": ("float32", folded),
    "channels_last": ("float32", lambda m: copy.deepcopy(m).to(memory_format=torch.channels_last)),
    "one by one": ("float32", in_halves),
    "float64": ("float32", in_dtype(torch.float64)),
    "traced": ("float32", lambda m: torch.jit.trace(m, torch.randn(2, 3, 16, 16))),
    "inference mode": ("float32", lambda m: torch.inference_mode()(m)),
    "bfloat16": ("bfloat16", in_dtype(torch.bfloat16)),
    "float16": ("float16", in_dtype(torch.float16)),
    "bfloat16 weights": ("bfloat16", changed(lambda m: [p.copy_(p.bfloat16()) for p in m.parameters()])),
    "autocast": ("bfloat16", lambda m: torch.autocast("cpu", torch.bfloat16)(m)),
}


def judged(change: Change, dtype: str) -> set[str]:
    """The words of several inputs and batch sizes."""
    original = model()
    other = change(original)
    words = set()
    for seed in range(4):
        for batch in (1, 8):
            torch.manual_seed(seed)
            x = torch.randn(batch, 3, 16, 16) * 2 + 1
            with torch.no_grad():
                ours, reference = (
                    [np.asarray(y.float()) for y in outputs(x)] for outputs in (other, original)
                )
            words.add(verdict(agreement(ours, reference), dtype))
    return words


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_program_is_never_called_the_same(name: str) -> None:
    words = judged(DIFFERENT[name], "float32")
    assert words - {"same"}, words
    assert "different" in words or "close" in words


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_export_is(name: str) -> None:
    dtype, change = SOUND[name]
    assert judged(change, dtype) == {"same"}
