"""Inputs of any structure: moved and told, without touching what the user gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch import tensors  # noqa: E402

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Tokens:
    ids: Any
    mask: Any
    temperature: float = 0.7
    cache: list[Any] = field(default_factory=list)


def test_floats_are_cast_and_integers_are_not() -> None:
    given = (torch.ones(2, 3), torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool), "text")
    x, ids, mask, text = tensors.move(given, CPU, dtype=torch.bfloat16)
    assert (x.dtype, ids.dtype, mask.dtype, text) == (torch.bfloat16, torch.int64, torch.bool, "text")
    assert tensors.move(given, CPU)[0] is given[0]


def test_channels_last_is_for_images_only() -> None:
    image, clip = tensors.move((torch.rand(1, 3, 4, 4), torch.rand(1, 3, 2, 4, 4)), CPU, channels_last=True)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert clip.is_contiguous()


def test_words() -> None:
    detections = [{"boxes": torch.zeros(2, 4)}, {"boxes": torch.zeros(2, 4)}]
    assert tensors.words(torch.zeros(8, 1000)) == "float32 (8, 1000)"
    assert tensors.words(detections) == "[2 x {boxes: float32 (2, 4)}]"
    assert tensors.words((torch.zeros(1, dtype=torch.int64), None)) == "(int64 (1), NoneType)"
    assert tensors.words(Tokens(ids=torch.zeros(1), mask=None)).startswith(
        "Tokens(ids: float32 (1), mask: NoneType"
    )


def test_size_counts_bytes_of_all_tensors() -> None:
    assert tensors.size({"a": torch.zeros(4, 2), "b": (torch.zeros(3, dtype=torch.int64),)}) == 32 + 24
