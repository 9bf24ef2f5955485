"""Sizes that a model file leaves open, and arrays to feed it. No framework is needed."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.backends._onnx.inputs import Input, random, rebatch, sizes
from laptime.kit.errors import UsageError

IMAGE = Input("image", "float32", ("N", 3, 224, 224))
TOKENS = Input("ids", "int64", ("batch", "length"))
FIXED = Input("x", "float32", (4, 8))


def test_an_open_first_size_is_the_batch() -> None:
    assert sizes([IMAGE], 8, {}, target="m.onnx") == {"image": (8, 3, 224, 224)}


def test_other_dimensions_of_the_batchs_name_are_the_batch() -> None:
    mask = Input("mask", "bool", (1, "batch"))
    ids = Input("ids", "int64", ("batch", 16))
    assert sizes([ids, mask], 5, {}, target="m.onnx")["mask"] == (1, 5)


def test_sizes_are_given_by_input_without_the_batch_or_by_dimension() -> None:
    assert sizes([TOKENS], 2, {"ids": [128]}, target="m.onnx") == {"ids": (2, 128)}
    assert sizes([TOKENS], 2, {"length": [64]}, target="m.onnx") == {"ids": (2, 64)}
    nameless = Input("x", "float32", ("", 3, "", ""))
    assert sizes([nameless], 1, {"x": [3, 32, 32]}, target="m.onnx") == {"x": (1, 3, 32, 32)}


def test_open_sizes_say_which_shape_to_give() -> None:
    with pytest.raises(UsageError) as told:
        sizes([TOKENS], 1, {}, target="m.onnx")
    assert "'ids'" in told.value.what
    assert "(batch, length)" in told.value.why
    assert told.value.next.startswith("--shape ids=128 ")
    with pytest.raises(UsageError) as told:
        sizes([Input("x", "float32", ("", 3, "h", "w"))], 1, {}, target="m.onnx")
    assert told.value.next.startswith("--shape x=3x224x224 ")


def test_a_shape_that_contradicts_the_file_is_refused() -> None:
    with pytest.raises(UsageError, match="not fit") as told:
        sizes([IMAGE], 1, {"image": [1, 224, 224]}, target="m.onnx")
    assert told.value.next == "--shape image=3x224x224"


def test_a_shape_for_nothing_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no input") as told:
        sizes([IMAGE], 1, {"imge": [3, 224, 224]}, target="m.onnx")
    assert "image" in told.value.next


def test_a_file_made_for_one_batch_does_no_other() -> None:
    assert sizes([FIXED], 4, {}, target="m.onnx") == {"x": (4, 8)}
    with pytest.raises(UsageError, match="batch 4, not 1") as told:
        sizes([FIXED], 1, {}, target="m.onnx")
    assert told.value.next.startswith("--batch 4")


def test_a_scalar_input_has_no_batch() -> None:
    scalar = Input("step", "int64", ())
    assert sizes([scalar], 1, {}, target="m.onnx") == {"step": ()}
    assert sizes([IMAGE, scalar], 2, {}, target="m.onnx")["step"] == ()


def test_random_values_have_dtype_and_shape_and_come_from_the_seed() -> None:
    def made(each: Input, shape: tuple[int, ...]) -> np.ndarray:
        return random(each, shape, np.random.default_rng(7))

    image = made(IMAGE, (2, 3, 8, 8))
    assert image.dtype == np.float32
    assert np.array_equal(image, made(IMAGE, (2, 3, 8, 8)))
    assert {*made(TOKENS, (4, 16)).ravel().tolist()} == {0, 1}
    assert made(Input("mask", "bool", ("b",)), (3,)).dtype == np.bool_


def test_items_are_repeated_from_the_front() -> None:
    pair, weights = np.array([[1.0], [2.0]]), np.ones((7, 1))
    longer = rebatch([pair, weights], 2, 5)
    assert longer[0].ravel().tolist() == [1, 2, 1, 2, 1]
    assert longer[1] is weights
    assert rebatch([pair], 2, 1)[0].tolist() == [[1.0]]
