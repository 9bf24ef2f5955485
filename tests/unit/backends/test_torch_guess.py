"""Inputs guessed from the first layer fit it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch.setup import guess  # noqa: E402

nn = torch.nn


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(2, 4, 3), (2, 2, 1024)),
        (nn.Conv2d(3, 4, 3), (2, 3, 224, 224)),
        (nn.Conv3d(3, 1, 3, stride=8), (2, 3, 16, 112, 112)),
        (nn.Linear(17, 3), (2, 17)),
        (nn.LSTM(5, 6, batch_first=True), (2, 128, 5)),
        (nn.GRU(5, 6), (128, 2, 5)),
    ],
)
def test_first_layer_tells_the_shape(layer: Any, shape: tuple[int, ...]) -> None:
    made = guess(nn.Sequential(nn.Identity(), layer))
    assert made is not None
    inputs = made[0](2)
    assert tuple(inputs.shape) == shape
    layer(inputs)
    assert type(layer).__name__ in made[1]


def test_embedding_gets_ids_within_its_vocabulary() -> None:
    made = guess(nn.Embedding(10, 4))
    assert made is not None
    ids = made[0](3)
    assert (tuple(ids.shape), ids.dtype) == ((3, 128), torch.int64)
    assert 0 <= int(ids.min()) <= int(ids.max()) < 10


def test_configuration_comes_before_layers() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3))
    net.pretrained_cfg = {"input_size": (3, 96, 96)}
    made = guess(net)
    assert made is not None
    assert made[0](1).shape == (1, 3, 96, 96)


def test_nothing_is_guessed_without_a_known_layer() -> None:
    assert guess(nn.Sequential(nn.ReLU())) is None
