"""Inputs of any structure: re-batched, moved and told, without touching what the user gave."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch import tensors  # noqa: E402
from laptime.kit.errors import TargetError  # noqa: E402

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Tokens:
    ids: Any
    mask: Any
    temperature: float = 0.7
    cache: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_items_are_repeated_from_the_front_and_cut() -> None:
    given = torch.arange(6).reshape(3, 2)
    assert tensors.rebatched(given, 5).tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    assert tensors.rebatched(given, 1).tolist() == [[0, 1]]
    assert tensors.rebatched(given, 3) is given


def test_token_ids_keep_dtype_and_values() -> None:
    ids = torch.tensor([[101, 7592, 102]])
    more = tensors.rebatched({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, 4)
    assert more["input_ids"].dtype == torch.int64
    assert more["input_ids"].tolist() == [[101, 7592, 102]] * 4
    assert more["attention_mask"].shape == (4, 3)


def test_only_tensors_that_share_the_batch_change() -> None:
    anchors, scalar = torch.zeros(9, 4), torch.tensor(3.0)
    x, y, same, number = tensors.rebatched((torch.ones(2, 3), torch.ones(2), anchors, 5), 8)
    assert (x.shape, y.shape, same is anchors, number) == ((8, 3), (8,), True, 5)
    assert tensors.rebatched((torch.ones(2), scalar), 3)[1] is scalar


def test_structures_keep_their_types() -> None:
    given = Tokens(ids=torch.ones(2, 5), mask=Pair(torch.ones(2), "right"), cache=[torch.zeros(2, 1)])
    more = tensors.rebatched(given, 4)
    assert isinstance(more, Tokens)
    assert isinstance(more.mask, Pair)
    assert (more.ids.shape, more.mask.left.shape, more.cache[0].shape) == ((4, 5), (4,), (4, 1))
    assert (more.temperature, more.mask.right) == (0.7, "right")
    assert given.ids.shape == (2, 5)
    for kind in (OrderedDict, UserDict):
        mapping = kind(ids=torch.ones(2, 5))
        changed = tensors.rebatched(mapping, 3)
        assert type(changed) is kind
        assert (changed["ids"].shape, mapping["ids"].shape) == ((3, 5), (2, 5))


def test_list_of_images_is_a_list_of_items() -> None:
    images = [torch.rand(3, 8, 8), torch.rand(3, 6, 6)]
    more = tensors.rebatched(images, 3)
    assert len(more) == 3
    assert more[2] is images[0]
    (nested,) = tensors.rebatched((images,), 1)
    assert len(nested) == 1
    targets = [{"boxes": torch.zeros(5, 4)}, {"boxes": torch.zeros(1, 4)}]
    both = tensors.rebatched((images, targets), 4)
    assert [len(part) for part in both] == [4, 4]
    assert len(tensors.rebatched(["a text", "another"], 5)) == 5


def test_list_of_batched_tensors_is_one_argument() -> None:
    dense, sparse = tensors.rebatched([torch.ones(2, 13), torch.ones(2, 26, dtype=torch.int64)], 6)
    assert (dense.shape, sparse.shape) == ((6, 13), (6, 26))


def test_arrays_are_rebatched_too() -> None:
    numpy = pytest.importorskip("numpy")
    assert tensors.rebatched(numpy.arange(4).reshape(2, 2), 3).tolist() == [[0, 1], [2, 3], [0, 1]]


def test_memory_format_survives() -> None:
    nhwc = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert tensors.rebatched(nhwc, 5).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("inputs", [(), {"flag": True}, (object(),), torch.zeros(0, 3)])
def test_what_has_no_batch_cannot_be_rebatched(inputs: Any) -> None:
    with pytest.raises(TargetError, match="batch 8"):
        tensors.rebatched(inputs, 8)
    if not torch.is_tensor(inputs):
        assert tensors.rebatched(inputs, 1) is inputs


def test_floats_are_cast_and_integers_are_not() -> None:
    given = (torch.ones(2, 3), torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool), "text")
    x, ids, mask, text = tensors.moved(given, CPU, dtype=torch.bfloat16)
    assert (x.dtype, ids.dtype, mask.dtype, text) == (torch.bfloat16, torch.int64, torch.bool, "text")
    assert tensors.moved(given, CPU)[0] is given[0]


def test_channels_last_is_for_images_only() -> None:
    image, clip = tensors.moved((torch.rand(1, 3, 4, 4), torch.rand(1, 3, 2, 4, 4)), CPU, channels_last=True)
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


def test_finite_looks_into_every_float() -> None:
    assert tensors.finite({"a": torch.ones(2), "b": [torch.tensor([1.0, float("nan")])]}) is False
    assert tensors.finite((torch.ones(2, dtype=torch.float16), torch.tensor([1]))) is True
    assert tensors.finite(torch.tensor([float("inf")])) is False
    assert tensors.finite(torch.tensor([1, 2])) is None
    assert tensors.finite("nothing") is None


def test_size_counts_bytes_of_all_tensors() -> None:
    assert tensors.size({"a": torch.zeros(4, 2), "b": (torch.zeros(3, dtype=torch.int64),)}) == 32 + 24
