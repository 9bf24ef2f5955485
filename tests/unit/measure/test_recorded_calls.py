"""What a reference made of some inputs, kept and held against another implementation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laptime.analysis.agreement import judge
from laptime.measure.recorded_calls import RecordedCalls, compare, other_batch, record, variation

WEIGHTS = np.random.default_rng(5).standard_normal((4, 3))


def linear(arrays: list[Any]) -> list[Any]:
    return [arrays[0] @ WEIGHTS]


def inputs(batch: int) -> list[Any]:
    return [np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)]


def test_calls_are_kept_with_several_inputs_and_both_batch_sizes(tmp_path: Path) -> None:
    recorded = record(linear, inputs, [3, other_batch(3)])
    assert [call.batch for call in recorded.calls] == [3, 3, 1, 3, 3, 3, 3]
    recorded.save(tmp_path / "calls.npz")
    loaded = RecordedCalls.load(tmp_path / "calls.npz")
    assert loaded.rounding == recorded.rounding
    for kept, call in zip(loaded.calls, recorded.calls, strict=True):
        assert np.array_equal(kept.inputs[0], call.inputs[0])
        assert np.array_equal(kept.outputs[0], call.outputs[0])
    assert judge(compare(linear, loaded, against="it", dtype="float32"), "float32").word == "same"


def test_variations_keep_the_set_of_values() -> None:
    tokens, image = np.arange(12).reshape(2, 6), np.linspace(0.0, 1.0, 8, dtype=np.float32)
    one, other = variation([tokens, image], 1)
    assert not np.array_equal(one, tokens)
    assert np.array_equal(np.sort(one.ravel()), tokens.ravel())
    assert np.array_equal(np.sort(other), image)
    (changed,) = variation([np.ones((2, 2), np.float32)], 1)
    assert 0 < changed.min() < changed.max() <= 1


def test_an_input_that_the_reference_refuses_is_left_out() -> None:
    def ordered(arrays: list[Any]) -> list[Any]:
        if (np.diff(arrays[0]) < 0).any():
            raise ValueError("not sorted")
        return arrays

    recorded = record(ordered, lambda batch: [np.arange(6.0)], [1])
    assert len(recorded.calls) == 4  # twice as far is sorted, and so are much smaller and zeros


def test_a_mask_that_masks_nothing_is_cut_short_and_tokens_fill_their_table() -> None:
    def looked_up(arrays: list[Any]) -> list[Any]:
        tokens, mask, length = arrays
        if tokens.max() >= 40:
            raise IndexError(tokens.max())
        return [(tokens * mask).sum(1, keepdims=True) / length[:, None]]

    given = [np.arange(12).reshape(2, 6), np.ones((2, 6), np.int64), np.full(2, 6)]
    recorded = record(
        looked_up, lambda batch: [array[:batch] for array in given], [2], [[1000, 40, 8], [], []]
    )
    tokens, mask, length = (np.stack([call.inputs[at] for call in recorded.calls]) for at in range(3))
    assert (tokens.min(), tokens.max()) == (0, 39)
    assert {tuple(np.sort(row)) for row in mask.reshape(-1, 6)} > {(1,) * 6}
    turns = np.abs(np.diff(mask)).sum(2)  # ones, then zeros; or a gap behind the first place
    assert mask[..., 0].all()
    assert set(turns.ravel()) == {0, 1, 2}
    assert 1 <= length.min() < length.max() == 6


def test_whole_numbers_reach_twice_as_far_where_the_reference_takes_them() -> None:
    def reached(given: Any, most: int, tables: Any = ()) -> tuple[int, int]:
        def waves(arrays: list[Any]) -> list[Any]:
            if arrays[0].max() > most:
                raise IndexError(arrays[0].max())
            return [np.sin(arrays[0] / 7.0)]

        numbers = np.stack([call.inputs[0] for call in record(waves, lambda _: [given], [2], tables).calls])
        assert numbers.dtype == given.dtype
        return int(numbers.min()), int(numbers.max())

    steps, counts = np.full(2, 500), np.arange(20).reshape(2, 10)
    assert reached(steps, 1000) == (1, 1000)
    assert 1 <= reached(steps, 500)[0] < reached(steps, 500)[1] <= 500
    assert reached(counts, 1000) == (0, 38)
    assert reached(counts, 19) == (0, 19)
    assert reached(counts.astype(np.uint8) * 13, 1000) == (0, 255)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reached(np.array([[0, 255]], np.uint8), 1000) == (0, 255)  # nothing lies beyond
    assert reached(counts, 1000, [None]) == (0, 19)  # on a GPU


@pytest.mark.parametrize("number", [0, 1, 7])
def test_bytes_that_are_all_the_same_reach_over_all_bytes(number: int) -> None:
    pixels = np.full((1, 3, 4, 4), number, np.uint8)
    calls = record(lambda arrays: [arrays[0] / 255], lambda batch: [pixels], [1]).calls
    assert {(int(call.inputs[0].min()), int(call.inputs[0].max())) for call in calls} >= {
        (min(number, 1), 255)
    }


def test_lengths_get_smaller_where_they_must_fall() -> None:
    def packed(arrays: list[Any]) -> list[Any]:
        if (np.diff(arrays[0]) > 0).any():
            raise ValueError("the longest comes first")
        return [np.cumsum(arrays[0])]

    calls = record(packed, lambda batch: [np.full(5, 9)], [5]).calls
    assert len({call.inputs[0].tobytes() for call in calls}) == 2


def test_floats_reach_twice_as_far_where_the_reference_gives_numbers() -> None:
    pixels = np.random.default_rng(0).random((2, 50)).astype(np.float32)
    for function, low, high in ((np.tanh, -0.5, 1.5), (np.sqrt, 0.0, 2.0)):
        with np.errstate(invalid="ignore"):
            calls = record(lambda arrays: [function(arrays[0])], lambda batch: [pixels[:batch]], [2]).calls  # noqa: B023
        far, quiet, silent = (call.inputs[0] for call in calls[-3:])
        assert far.min() == pytest.approx(low, abs=0.05)
        assert far.max() == pytest.approx(high, abs=0.05)
        assert quiet == pytest.approx(pixels / 32)
        assert not silent.any()


def test_complex_numbers_reach_twice_as_far_and_get_small() -> None:
    lines = np.random.default_rng(0).standard_normal((2, 40)).astype(np.complex64) * 1j
    calls = record(lambda arrays: [arrays[0].real], lambda batch: [lines[:batch]], [2]).calls
    most = [float(np.abs(call.inputs[0]).max() / np.abs(lines).max()) for call in calls[-3:]]
    assert most == pytest.approx([2, 1 / 32, 0], abs=0.5)
    assert {call.inputs[0].dtype for call in calls} == {np.dtype(np.complex64)}


def test_sounds_in_whole_numbers_fall_silent_and_a_mask_of_bytes_does_not() -> None:
    sound = np.random.default_rng(0).integers(-9000, 9000, (2, 80)).astype(np.int16)
    for given, is_silent in ((sound, True), (np.ones((2, 80), np.uint8), False)):
        calls = record(lambda arrays: [arrays[0] / 2.0], lambda batch: [given[:batch]], [2]).calls  # noqa: B023
        assert any(not call.inputs[0].any() for call in calls) is is_silent


def test_each_column_fills_a_table_of_its_own() -> None:
    sizes = np.array([500, 40, 7])

    def looked_up(arrays: list[Any]) -> list[Any]:
        if (arrays[0] >= sizes).any():
            raise IndexError
        return [np.sin(arrays[0].sum(1))]

    given = np.random.default_rng(0).integers(0, 7, (40, 3))
    calls = record(looked_up, lambda batch: [given[:batch]], [40], [[sizes, 7]]).calls  # type: ignore[list-item]
    most = np.max([call.inputs[0].max(0) for call in calls], axis=0)
    assert (most > 0.8 * (sizes - 1)).all()


def test_one_item_has_others_beside_it_whose_masks_differ() -> None:
    """Else the mask of the first item may stand for all."""
    sizes = list[int]()

    def looked_up(arrays: list[Any]) -> list[Any]:
        return [(arrays[0] * arrays[1]).sum(1)]

    def made(size: int) -> list[Any]:
        return [np.ones((size, 9)), np.ones((size, 9), int)]

    def made_of_two(size: int) -> list[Any]:
        if size > 2:
            raise ValueError("there are two items")
        return made(size)

    assert len(record(looked_up, made_of_two, [1, 2, 3]).calls) > 5
    calls = record(looked_up, made, [1, 2, 3]).calls
    for call in calls:
        sizes += [len(call.inputs[1])] * (len(np.unique(call.inputs[1], axis=0)) > 1)
    assert sizes == [3, 3]


def test_a_constant_scale_gets_larger_and_smaller() -> None:
    scale = np.full(3, 7.5, np.float32)
    calls = record(lambda arrays: [np.sqrt(arrays[0])], lambda batch: [scale], [1]).calls
    assert {float(call.inputs[0].max()) for call in calls} > {7.5, 15.0, 7.5 / 32, 0.0}


@pytest.mark.parametrize("number", [0, 1])
def test_tokens_that_are_all_the_same_fill_their_table_and_a_mask_does_not(number: int) -> None:
    table = np.random.default_rng(0).standard_normal((50, 3))
    given = [np.full((2, 6), number), np.full((2, 6), number)]

    def looked_up(arrays: list[Any]) -> list[Any]:
        return [(table[arrays[0]] * (arrays[1] == number)[..., None]).sum(1)]

    recorded = record(looked_up, lambda batch: given, [2], [[50], []])
    tokens, mask = (np.stack([call.inputs[at] for call in recorded.calls]) for at in (0, 1))
    assert (tokens.min(), tokens.max()) == (0, 49)
    assert set(mask.ravel()) == {0, 1}


def test_what_a_mask_leaves_out_may_be_infinite_and_nothing_else() -> None:
    def chosen(arrays: list[Any]) -> list[Any]:
        with np.errstate(divide="ignore"):
            return [np.where(arrays[1], np.log(np.maximum(arrays[0], -1) + 1), -np.inf)]

    given = [np.linspace(0, 4, 10).reshape(2, 5), np.ones((2, 5), bool)]
    calls = record(chosen, lambda batch: given, [2]).calls
    infinite = [call for call in calls if np.isinf(call.outputs[0]).any()]
    assert [call.inputs[1].all() for call in infinite] == [False, False]
    assert all(np.array_equal(call.inputs[0], given[0]) for call in infinite)


def test_a_reference_that_draws_random_numbers_is_none() -> None:
    dice = np.random.default_rng(0)
    recorded = record(lambda arrays: [arrays[0] + dice.standard_normal(arrays[0].shape)], inputs, [2])
    found = compare(linear, recorded, against="it", dtype="float32")
    word, sentence, _ = judge(found, "float32")
    assert word == "unknown"
    assert "differ each time" in sentence


def test_a_call_that_fails_is_a_difference_unless_the_batch_is_fixed() -> None:
    def only_two(arrays: list[Any]) -> list[Any]:
        if len(arrays[0]) != 2:
            raise ValueError("made for batch 2")
        return linear(arrays)

    recorded = record(linear, inputs, [2, 1])
    found = compare(only_two, recorded, against="torch", dtype="float32")
    assert "fails on inputs of batch 1 that torch takes: ValueError: made for batch 2" in found.reason
    fixed = compare(only_two, recorded, against="torch", dtype="float32", fixed=True)
    assert (fixed.reason, fixed.inputs) == ("", 6)


def test_a_model_that_changes_its_inputs_changes_nobody_elses() -> None:
    def spoiling(arrays: list[Any]) -> list[Any]:
        result = linear(arrays)
        arrays[0][:] = 0
        return result

    recorded = record(spoiling, inputs, [2])
    assert judge(compare(linear, recorded, against="it", dtype="float32"), "float32").word == "same"


def test_rounding_is_what_the_last_bits_of_the_inputs_do() -> None:
    steep = record(lambda arrays: [np.sin(arrays[0].astype(np.float64) * 1e4)], inputs, [64]).rounding[0]
    flat = record(linear, inputs, [64]).rounding[0]
    assert flat < 1e-6
    assert 1e-4 < steep < 1e-1


def test_whatever_the_first_call_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        record(lambda arrays: [np.array(1 // 0)], inputs, [1])
