"""What is given is what is measured; the batch in it is known, or said to be unknown, and never guessed."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from laptime.backends.torch.batching import Batching, find, resize  # noqa: E402
from laptime.backends.torch.setup import modules_in  # noqa: E402
from laptime.kit.errors import TargetError  # noqa: E402
from laptime.targets import arguments  # noqa: E402


@dataclass(frozen=True)
class Tokens:
    ids: Any
    mask: Any
    temperature: float = 0.7
    cache: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    left: Any
    right: Any


def nothing(*args: Any, **kwargs: Any) -> None: ...


def batching(inputs: Any, model: Any = nothing) -> Batching:
    args, kwargs = arguments(inputs)
    return find(partial(model, *args, **kwargs), modules_in(model), inputs)


def made(inputs: Any, batch: int, model: Any = nothing) -> Any:
    return resize(inputs, batching(inputs, model), batch)


def test_items_are_repeated_from_the_front_and_cut() -> None:
    given = torch.arange(6).reshape(3, 2)
    assert made(given, 5).tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]]
    assert made(given, 1).tolist() == [[0, 1]]
    assert made(given, 3) is given


def test_token_ids_keep_dtype_and_values() -> None:
    ids = torch.tensor([[101, 7592, 102]])
    more = made({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, 4)
    assert more["input_ids"].dtype == torch.int64
    assert more["input_ids"].tolist() == [[101, 7592, 102]] * 4
    assert more["attention_mask"].shape == (4, 3)


def test_structures_keep_their_types() -> None:
    given = Tokens(ids=torch.ones(2, 5), mask=Pair(torch.ones(2), "right"), cache=[torch.zeros(2, 1)])
    more = made(given, 4)
    assert isinstance(more, Tokens)
    assert isinstance(more.mask, Pair)
    assert (more.ids.shape, more.mask.left.shape, more.cache[0].shape) == ((4, 5), (4,), (4, 1))
    assert (more.temperature, more.mask.right) == (0.7, "right")
    assert given.ids.shape == (2, 5)
    for kind in (OrderedDict, UserDict):
        mapping = kind(ids=torch.ones(2, 5))
        changed = made(mapping, 3)
        assert type(changed) is kind
        assert (changed["ids"].shape, mapping["ids"].shape) == ((3, 5), (2, 5))


def test_list_of_images_is_a_list_of_items() -> None:
    images = [torch.rand(3, 8, 8), torch.rand(3, 6, 6)]
    more = made(images, 3)
    assert len(more) == 3
    assert more[2] is images[0]
    (nested,) = made((images,), 1)
    assert len(nested) == 1
    targets = [{"boxes": torch.zeros(5, 4)}, {"boxes": torch.zeros(1, 4)}]
    both = made((images, targets), 4)
    assert [len(part) for part in both] == [4, 4]
    assert len(made(["a text", "another"], 5)) == 5


def test_list_of_batched_tensors_is_one_argument() -> None:
    dense, sparse = made([torch.ones(2, 13), torch.ones(2, 26, dtype=torch.int64)], 6)
    assert (dense.shape, sparse.shape) == ((6, 13), (6, 26))


def test_arrays_are_resized_too() -> None:
    numpy = pytest.importorskip("numpy")
    assert made(numpy.arange(4).reshape(2, 2), 3).tolist() == [[0, 1], [2, 3], [0, 1]]


def test_memory_format_survives() -> None:
    nhwc = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert made(nhwc, 5).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("inputs", [(), {"flag": True}, (object(),), torch.tensor(3.0), torch.zeros(0, 3)])
def test_what_has_no_batch_cannot_be_resized(inputs: Any) -> None:
    with pytest.raises(TargetError, match="batch 8"):
        made(inputs, 8)
    assert made(inputs, 1) is inputs


def test_where_inputs_share_no_first_dimension_nothing_is_cut() -> None:
    given = (torch.ones(2, 3), torch.ones(9, 4), torch.tensor(3.0), 5)
    found = batching(given)
    assert found.size is None
    assert "first dimension: (2, 3), (9, 4)" in found.why
    assert made(given, 1) is given
    with pytest.raises(TargetError, match="batch 2") as caught:
        made(given, 2)
    assert "first dimension" in caught.value.why
    assert caught.value.next


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Conv2d(3, 4, 3), (3, 8, 8)),
        (nn.Sequential(nn.Conv1d(3, 4, 3)), (3, 8)),
        (nn.Linear(3, 4), (3,)),
        (nn.LSTM(3, 4), (9, 3)),
    ],
)
def test_a_single_item_is_one_item(model: Any, shape: tuple[int, ...]) -> None:
    found = batching(torch.ones(shape), model)
    assert found.size == 1
    assert "one item" in found.why
    with pytest.raises(TargetError, match="batch 8"):
        made(torch.ones(shape), 8, model)


def test_time_first_is_not_cut_along_time() -> None:
    steps = torch.ones(50, 8, 64)
    for model in (nn.LSTM(64, 4), nn.GRU(64, 4), nn.RNN(64, 4), nn.TransformerEncoderLayer(64, 2)):
        found = batching(steps, model)
        assert (found.size, found.places, found.looked) == (8, {0: 1}, False)
        assert "dimension 1" in found.why
        assert made(steps, 3, model).shape == (50, 3, 64)
    square = torch.ones(8, 8, 64)
    assert made(square, 3, nn.LSTM(64, 4)).shape == (8, 3, 64), "the layer gets it as it is"
    assert batching(steps, nn.LSTM(64, 4, batch_first=True)).places == {0: 0}


def test_states_of_a_recurrent_layer_have_the_batch_in_the_middle() -> None:
    states = (torch.ones(8, 4, 16), torch.ones(8, 4, 16))
    model = nn.LSTM(6, 16, 4, bidirectional=True, batch_first=True)
    x, (h, c) = made((torch.ones(4, 8, 6), states), 3, model)
    assert (x.shape, h.shape, c.shape) == ((3, 8, 6), (8, 3, 16), (8, 3, 16))
    assert model(x, (h, c))[0].shape == (3, 8, 32)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.lstm = nn.LSTM(6, 4)
        self.calls = 0

    def forward(self, ids: Any, mask: Any = None) -> Any:
        self.calls += 1
        return self.lstm(self.embed(ids).transpose(0, 1))[0]


def test_layers_inside_are_asked_with_one_call() -> None:
    model = Tagger()
    ids = torch.ones(4, 20, dtype=torch.int64)
    found = batching(ids, model)
    assert (found.size, found.places, found.looked, model.calls) == (4, {0: 0}, True, 1)
    assert "LSTM lstm takes dimension 1 of what reaches it, (20, 4, 6)" in found.why
    assert not any(module._forward_pre_hooks for module in model.modules())
    both = made((ids, torch.ones(20, 20)), 2, model)
    assert [part.shape for part in both] == [(2, 20), (20, 20)], "a mask over time has no batch"


def test_two_dimensions_of_one_size_are_not_guessed() -> None:
    found = batching(torch.ones(5, 5, dtype=torch.int64), Tagger())
    assert found.size is None
    assert "two dimensions" in found.why


def test_a_batch_that_reaches_no_layer_is_not_guessed() -> None:
    class Windows(Tagger):
        def forward(self, ids: Any, mask: Any = None) -> Any:
            return self.lstm(ids.reshape(10, 12, 6))[0]

    found = batching(torch.ones(4, 180), Windows())
    assert found.size is None
    assert "not found" in found.why


def test_a_model_that_raises_when_asked_raises_later_in_its_place() -> None:
    class Broken(Tagger):
        def forward(self, ids: Any, mask: Any = None) -> Any:
            raise ValueError("planted")

    assert batching(torch.ones(4, 3), Broken()).size is None
