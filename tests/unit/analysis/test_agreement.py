"""How far apart the outputs of two implementations are, and what that means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from laptime.analysis.agreement import Call, judge, measure, precision_of
from laptime.records.details import Agreement, OutputError

LOGITS = np.array([[1.0, 2.0, 4.0], [8.0, 2.0, 1.0]], np.float32)
RMS = float(np.sqrt(np.mean(np.square(LOGITS))))


def found(ours: list[Any], reference: list[Any], batch: int = 2) -> Agreement:
    return measure([Call(ours, reference, batch)], against="torch")


def only(ours: Any, reference: Any) -> OutputError:
    (error,) = found([ours], [reference]).outputs
    return error


def test_equal_outputs_have_no_error() -> None:
    error = only(LOGITS, LOGITS.copy())
    assert (error.rms, error.largest, error.absolute, error.cosine, error.top1) == (0, 0, 0, 1, 1)
    assert error.gain == pytest.approx(1)
    assert judge(found([LOGITS], [LOGITS]), "float32").word == "same"


def test_errors_are_told_against_the_root_mean_square_of_the_reference() -> None:
    error = only(LOGITS + np.float32(0.5), LOGITS)
    assert error.absolute == pytest.approx(0.5)
    assert error.largest == error.rms == pytest.approx(0.5 / RMS)


def test_a_factor_of_50_is_told_and_fails_although_the_cosine_is_1() -> None:
    one = np.array([[0.32]], np.float32)
    agreement = measure([Call([50 * x * one], [x * one], 1) for x in (1.0, 0.7, -0.4)], against="torch")
    (error,) = agreement.outputs
    assert error.cosine == pytest.approx(1)
    assert error.gain == pytest.approx(50)
    word, sentence, _ = judge(agreement, "float32")
    assert word == "different"
    assert "scaled by 50" in sentence
    assert "3 inputs of batch 1" in sentence


def test_the_call_with_the_largest_error_is_named() -> None:
    empty = np.zeros((0, 3))
    calls = [Call([empty], [empty], 0)]
    calls += [Call([LOGITS + error], [LOGITS], 2) for error in (1e-6, 3e-6, 2e-6)]
    (error,) = measure(calls, against="torch").outputs
    assert error.worst == 2


def test_of_whole_numbers_the_call_with_most_differences_is_named() -> None:
    numbers = np.arange(6).reshape(2, 3)
    calls = [Call([np.where(numbers < fewer, -1, numbers)], [numbers], 2) for fewer in (0, 1, 4, 2)]
    (error,) = measure(calls, against="torch").outputs
    assert (error.exact, error.worst) == (True, 2)


def test_top1_and_cosine_are_told_and_decide_nothing() -> None:
    ties = np.array([[1.0, 1.0 + 1e-6], [2.0, 3.0]])
    other = np.array([[1.0 + 1e-6, 1.0], [2.0, 3.0]])
    word, sentence, _ = judge(found([other], [ties]), "float32")
    assert word == "same"
    assert "top-1 the same in 50 %" in sentence


def test_the_worst_of_several_outputs_and_calls_counts() -> None:
    calls = [Call([LOGITS, LOGITS], [LOGITS, LOGITS], 2), Call([LOGITS, -LOGITS], [LOGITS, LOGITS], 2)]
    agreement = measure(calls, against="torch")
    assert [error.rms for error in agreement.outputs] == [0, pytest.approx(2)]
    word, sentence, _ = judge(agreement, "float32")
    assert word == "different"
    assert sentence.startswith("output 2 of 2")


def test_outputs_of_another_shape_or_number_are_different() -> None:
    for ours, reference in (([LOGITS], [LOGITS[:, :2]]), ([LOGITS], [LOGITS, LOGITS]), ([], [])):
        agreement = found(ours, reference)
        assert "shape" in agreement.reason
        assert judge(agreement, "float32").word == "different"
    assert "(2, 3)" in found([LOGITS], [LOGITS[:, :2]]).reason


def test_nan_and_infinity_agree_only_with_themselves() -> None:
    odd = np.array([np.nan, np.inf, 1.0], np.float32)
    assert only(odd, odd).absolute == 0
    agreement = found([odd], [np.ones(3, np.float32)])
    assert agreement.outputs[0].absolute == np.inf
    assert judge(agreement, "float32").word == "different"


def test_whole_numbers_are_counted_where_they_differ() -> None:
    picked = np.array([3, 1, 4, 1])
    error = only(picked + np.array([0, 1, 0, 0]), picked)
    assert error.exact
    assert error.rms == 0.25
    assert judge(found([picked], [picked + 1]), "int8").word == "different"


@pytest.mark.parametrize(
    ("wrong", "dtype", "word"),
    [
        *(
            (1, "int8", "same"),
            (2, "bfloat16", "unknown"),
            (39, "int8", "unknown"),
            (80, "int8", "different"),
        ),
        *((1, "float32", "close"), (24, "float32", "different")),
    ],
)
def test_of_labels_a_percent_may_flip_and_of_more_a_metric_decides(wrong: int, dtype: str, word: str) -> None:
    labels = np.random.default_rng(0).integers(0, 10, (4, 100))
    ours = labels.copy()
    ours[:, :wrong] = (ours[:, :wrong] + 1) % 10
    found = measure([Call([a], [b], 100) for a, b in zip(ours, labels, strict=True)], against="the model")
    assert judge(found, dtype).word == word
    assert ("--metric" in judge(found, dtype).sentence) == (word == "unknown")


def test_a_label_is_another_where_the_values_behind_it_tie() -> None:
    scores = np.random.default_rng(0).standard_normal((50, 10)).astype(np.float32)
    scores[:25, 1] = scores[:25].max(1) + 1
    scores[:25, 2] = scores[:25, 1] - np.float32(1e-6)
    labels = scores.argmax(1)
    rounded, other = scores.copy(), labels.copy()
    rounded[:25, 2] += np.float32(3e-6)
    other[:25] = 2
    assert judge(found([rounded, other], [scores, labels], 50), "float32").word == "same"
    assert judge(found([other, rounded], [labels, scores], 50), "float32").word == "same"
    other[25:30] = (other[25:30] + 1) % 10
    assert judge(found([rounded, other], [scores, labels], 50), "float32").word == "different"
    best, places = -np.sort(-scores, axis=1)[:, :3], np.argsort(-scores, axis=1)[:, :3]
    swapped = places.copy()
    swapped[:25, :2] = places[:25, 1::-1]
    close = best + np.array([0, 2e-6, 0], np.float32)
    assert judge(found([close, swapped], [best, places], 50), "float32").word == "same"
    assert judge(found([best, places[:, ::-1]], [best, places], 50), "int8").word != "same"


@pytest.mark.parametrize(("sign", "most"), [(-1, 10), (1, 10), (-1, 40), (1, 40)])
def test_places_of_the_best_or_worst_may_change_where_all_scores_tie(sign: int, most: int) -> None:
    scores = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    near = scores + np.float32(1e-2) * np.random.default_rng(1).standard_normal(scores.shape).astype("f4")
    right, ours = (np.argsort(sign * each, 1, kind="stable")[:, :most] for each in (scores, near))
    assert (right != ours).mean() > 0.01
    assert judge(found([near, ours], [scores, right], 6), "bfloat16").word == "same"
    assert judge(found([near, right[:, ::-1]], [scores, right], 6), "bfloat16").word == "different"
    assert judge(found([near, ours], [near, right], 6), "bfloat16").word == "unknown"  # of others' values


@pytest.mark.parametrize("sign", [-1, 1])
def test_places_of_sorted_values_may_change_where_neighbours_tie(sign: int) -> None:
    draw = np.random.default_rng(0)
    values = sign * np.sort(draw.standard_normal((4, 60)), 1)
    near = values + 0.05 * draw.standard_normal(values.shape)
    places = draw.permuted(np.tile(np.arange(60), (4, 1)), axis=1)
    turned = places.copy()
    turned[:, 20:40] = (
        places[:, 20:40].reshape(4, 10, 2)[..., ::-1].reshape(4, 20)
    )  # where values lie densely
    assert judge(found([near, turned], [values, places], 4), "int8").word == "same"
    assert judge(found([values, turned], [values, places], 4), "int8").word == "unknown"
    assert judge(found([near, places[:, ::-1]], [values, places], 4), "int8").word == "unknown"


def test_places_that_rounding_flips_may_flip() -> None:
    labels = np.random.default_rng(0).integers(0, 10, (4, 1000))
    ours = labels.copy()
    ours[:, :3] += 1
    calls = [Call([a], [b], 1000) for a, b in zip(ours, labels, strict=True)]
    assert judge(measure(calls, against="it"), "float32").word == "close"
    assert judge(measure(calls, against="it", rounding=[0.001]), "float32").word == "same"


def test_one_label_of_a_small_batch_that_flips_in_lower_precision_is_no_certain_harm() -> None:
    """A likeness about its limit, of a single item: 100 % of its whole numbers differ."""
    near = [np.array([True, False] * 4), np.array([False, True] * 4), np.array([True])]
    calls = [Call([each ^ (each.size == 1)], [each], each.size) for each in near]
    assert judge(measure(calls, against="it"), "bfloat16").word == "unknown"
    assert judge(measure(calls, against="it"), "float32").word in ("close", "different")
    calls = [Call([~each], [each], each.size) for each in near]
    assert judge(measure(calls, against="it"), "bfloat16").word == "different"


@pytest.mark.parametrize("axis", [1, 2])
def test_scores_beside_boxes_are_held_against_scores(axis: int) -> None:
    draw = np.random.default_rng(0)
    boxes, scores = draw.uniform(0, 640, (4, 100, 4)), draw.uniform(0, 0.02, (4, 100, 1))
    lost = np.concatenate([boxes, 0 * scores], 2)
    both = np.concatenate([boxes, scores], 2)
    if axis == 1:
        lost, both = lost.transpose(0, 2, 1), both.transpose(0, 2, 1)
    assert judge(found([lost], [both], 4), "float32").word == "different"
    assert judge(found([lost], [both], 4), "int8").word == "unknown"
    assert "small numbers" in judge(found([lost], [both], 4), "float32").sentence
    near = both * (1 + 1e-5 * draw.standard_normal(both.shape))
    assert judge(found([near], [both], 4), "float32").word == "same"


def test_how_sure_a_point_is_counts_beside_shares_of_the_image() -> None:
    """A column an eighth as large as the tensor: zeros in its place were within the limits of int8."""
    draw = np.random.default_rng(0)
    points = np.concatenate([draw.random((4, 17, 2)), draw.uniform(0.05, 0.09, (4, 17, 1))], 2)
    assert judge(found([points * [1, 1, 0]], [points], 4), "int8").word == "unknown"
    assert (
        judge(found([points + 0.01 * draw.standard_normal(points.shape)], [points], 4), "int8").word == "same"
    )


def test_the_smallest_shares_of_a_whole_are_no_small_column() -> None:
    logits = np.random.default_rng(0).standard_normal((40, 10)) + np.linspace(0, 12, 10)
    ours, theirs = (
        np.exp(each) / np.exp(each).sum(1, keepdims=True)
        for each in (logits + 0.8 * (np.arange(10) < 3), logits)
    )
    assert judge(found([ours], [theirs], 40), "int8").word == "same"


@pytest.mark.parametrize("outputs", [np.zeros((2, 3)), np.ones((2, 3), np.int64)])
def test_outputs_that_do_not_depend_on_the_inputs_tell_nothing(outputs: Any) -> None:
    word, sentence, _ = judge(found([outputs], [outputs]), "float32")
    assert word == "unknown"
    assert "a constant" in sentence


def test_one_input_of_one_item_tells_nothing() -> None:
    assert "only one" in judge(found([LOGITS[:1]], [LOGITS[:1]], batch=1), "float32").sentence


def test_an_error_as_large_as_the_spread_is_no_agreement_in_any_precision() -> None:
    reference = [100 + np.array([[x]]) for x in (0.0, 1.0, 2.0)]
    frozen = measure([Call([reference[0]], [each], 1) for each in reference], against="torch")
    assert judge(frozen, "bfloat16").word == "unknown"
    rounded = measure([Call([each * 1.0001], [each], 1) for each in reference], against="torch")
    assert judge(rounded, "bfloat16").word == "same"


@pytest.mark.parametrize(("error", "word"), [(0.05, "different"), (1e-3, "same")])
def test_small_changes_of_a_large_number_are_held_against_the_changes(error: float, word: str) -> None:
    """Temperatures near 280 K: of all of it, a change that is 5 % too small is one part in a million."""
    changes = 0.03 * np.random.default_rng(0).standard_normal((4, 500))
    calls = [Call([280 + changes * (1 - error)], [280 + changes], 4)]
    found = judge(measure(calls, against="it"), "float32")
    assert found.word in ({"same"} if word == "same" else {"close", "different"}), found
    assert f"{3.4 if word != 'same' else 0.07} % of what other inputs change" in found.sentence
    assert judge(measure(calls, against="it"), "bfloat16").word == "same"


def test_rounding_that_is_known_is_no_lost_change() -> None:
    changes = 1e-4 * np.random.default_rng(0).standard_normal((4, 500))
    calls = [Call([1 + 1.1 * changes], [1 + changes], 4)]
    assert judge(measure(calls, against="it"), "float32").word != "same"
    assert judge(measure(calls, against="it", rounding=[2e-6]), "float32").word == "same"


@pytest.mark.parametrize(
    ("error", "dtype", "word"),
    [
        (2e-5, "float32", "same"),
        (2e-3, "float32", "close"),
        (0.1, "float32", "different"),
        (2e-3, "float16", "same"),
        (0.1, "float16", "close"),
        (0.1, "bfloat16", "same"),
        (2e-5, "float64", "close"),
        (2e-5, "unheard of", "same"),
    ],
)
def test_the_limit_is_that_of_the_precision(error: float, dtype: str, word: str) -> None:
    signs = np.random.default_rng(0).choice([-1.0, 1.0], 4000)
    reference = np.random.default_rng(1).standard_normal((2, 2000)).astype(np.float32)
    ours = reference + (error * signs).reshape(2, 2000)
    calls = [Call([ours], [reference], 2)]
    assert judge(measure(calls, against="torch", dtype="float64"), dtype).word == word


def test_the_coarser_precision_of_both_sides_counts() -> None:
    calls = [Call([LOGITS * 1.005], [LOGITS], 2)]
    assert judge(measure(calls, against="torch", dtype="float16"), "float32").word == "same"
    assert judge(measure(calls, against="torch"), "float32").word == "close"


def test_a_model_that_amplifies_rounding_is_granted_what_rounding_does() -> None:
    calls = [Call([LOGITS * 1.0005], [LOGITS], 2)]
    assert judge(measure(calls, against="torch"), "float32").word == "close"
    assert judge(measure(calls, against="torch", rounding=[4e-4]), "float32").word == "same"
    wild = [Call([LOGITS * 1.2], [LOGITS], 2)]
    assert judge(measure(wild, against="torch", rounding=[1.0]), "float32").word == "different"


def test_no_top1_without_rows_of_classes() -> None:
    assert only(np.ones((2, 3, 4)), np.ones((2, 3, 4))).top1 is None
    assert only(np.ones((2, 1)), np.ones((2, 1))).top1 is None


@pytest.mark.parametrize(
    ("held", "precision"),
    [
        ({"float32": 20}, "float32"),
        ({"float32": 20, "uint8": 1}, "float32"),
        ({"float32": 20, "int8": 8}, "int8"),
    ],
)
def test_a_model_with_weights_of_8_bits_is_a_quantized_one(held: dict[str, int], precision: str) -> None:
    assert precision_of("float32", held) == precision
