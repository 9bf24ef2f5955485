"""Work of single calls, against figures that are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.analysis import operator_work
from laptime.analysis.operator_work import Counted


def work(
    name: str, shapes: list[Any], dtype: str = "float", output: list[int] | None = None
) -> Counted | None:
    types = [dtype if shape else "Scalar" for shape in shapes]
    return operator_work.work(name, shapes, types, output)


@pytest.mark.parametrize(
    ("name", "shapes", "flop", "elements"),
    [
        ("aten::mm", [[3, 4], [4, 5]], 2 * 3 * 4 * 5, 12 + 20 + 15),
        ("aten::addmm", [[5], [3, 4], [4, 5], [], []], 2 * 3 * 4 * 5, 5 + 12 + 20 + 15),
        ("aten::bmm", [[7, 3, 4], [7, 4, 5]], 7 * 120, 7 * 47),
        ("aten::matmul", [[2, 7, 3, 4], [4, 5]], 14 * 120, 14 * 12 + 20 + 14 * 15),
        ("aten::matmul", [[2, 1, 3, 4], [7, 4, 5]], 14 * 120, 24 + 140 + 14 * 15),
        ("aten::matmul", [[3, 4], [4]], 24, 12 + 4 + 3),
        ("aten::matmul", [[4], [4, 5]], 40, 4 + 20 + 5),
        ("aten::mv", [[3, 4], [4]], 24, 12 + 4 + 3),
        ("aten::linear", [[2, 3, 4], [5, 4], [5]], 2 * 6 * 4 * 5, 24 + 20 + 5 + 30),
        ("aten::linear", [[2, 3, 4], [5, 4], []], 2 * 6 * 4 * 5, 24 + 20 + 30),
        # each of 2 heads: 6 queries x 5 keys x (8 + 3) x 2
        (
            "aten::scaled_dot_product_attention",
            [[1, 2, 6, 8], [1, 2, 5, 8], [1, 2, 5, 3]],
            1320,
            96 + 80 + 30 + 36,
        ),
        ("aten::add", [[4, 3], [3], []], 12, 12 + 3 + 12),
        ("aten::add_", [[4, 3], [4, 3], []], 12, 36),
        ("aten::relu", [[4, 3]], 12, 24),
        ("aten::layer_norm", [[4, 3], [], [3], [3], []], 12, 12 + 3 + 3 + 12),
        ("aten::sum", [[4, 3], []], 12, 12),
        ("aten::copy_", [[4, 3], [4, 3], []], 0, 24),
        ("aten::zero_", [[4, 3]], 0, 12),
    ],
)
def test_work_by_hand(name: str, shapes: list[Any], flop: int, elements: int) -> None:
    assert work(name, shapes) == Counted(flop, 4 * elements, "float32")
    assert work(name, shapes, "c10::Half") == Counted(flop, 2 * elements, "float16")


def test_a_convolution_needs_its_output() -> None:
    shapes = [[8, 16, 10, 10], [32, 4, 3, 3], [32], [], [], [], []]
    assert work("aten::conv2d", shapes) is None
    found = work("aten::conv2d", shapes, output=[8, 32, 5, 5])
    assert found == Counted(2 * 8 * 32 * 25 * 4 * 9, 4 * (12800 + 1152 + 32 + 6400), "float32")


def test_gradients_of_a_convolution_are_two_products() -> None:
    gradient, inputs, weight = [8, 32, 5, 5], [8, 16, 10, 10], [32, 4, 3, 3]
    found = work("aten::convolution_backward", [gradient, inputs, weight, [32]])
    assert found == Counted(2 * 2 * 8 * 32 * 25 * 36, 4 * (6400 + 2 * 12800 + 2 * 1152), "float32")
    assert found == work("aten::cudnn_convolution_backward", [inputs, gradient, weight])


def test_a_transposed_convolution_counts_the_places_of_its_input() -> None:
    inputs, weight, gradient = [2, 6, 5, 5], [6, 3, 4, 4], [2, 3, 10, 10]
    forward = work("aten::conv_transpose2d", [inputs, weight, []])
    assert forward is not None
    assert forward.flop == 2 * (2 * 6 * 25) * (3 * 16)
    backward = work("aten::convolution_backward", [gradient, inputs, weight, []])
    assert backward is not None
    assert backward.flop == 2 * forward.flop
    square = work("aten::convolution_backward", [[2, 6, 10, 10], inputs, [6, 6, 4, 4], []])
    assert square is not None
    assert square.flop == 2 * 2 * (2 * 6 * 25) * (6 * 16)


def test_attention_backward_is_five_products() -> None:
    query, key, value = [1, 2, 6, 8], [1, 2, 5, 8], [1, 2, 5, 3]
    found = work("aten::_scaled_dot_product_flash_attention_backward", [[1, 2, 6, 3], query, key, value])
    assert found is not None
    assert found.flop == 2 * (2 * 6 * 5) * (3 * 8 + 2 * 3)


def test_lookups_move_the_rows_that_they_write() -> None:
    found = operator_work.work("aten::embedding", [[30000, 64], [2, 5], []], ["float", "long int", "Scalar"])
    assert found == Counted(0, 10 * 8 + 10 * 64 * 4, "float32")


def test_copies_between_types_count_both() -> None:
    found = operator_work.work("aten::copy_", [[6], [6], []], ["c10::BFloat16", "float", "Scalar"])
    assert found == Counted(0, 6 * 2 + 6 * 4, "bfloat16")


def test_comparisons_write_bytes() -> None:
    assert work("aten::eq", [[6], [6]]) == Counted(6, 24 + 24 + 6, "float32")


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", []),
        ("aten::mm", [[3, 4]]),
        ("aten::mm", [[3, 4], [5, 6]]),
        ("aten::mm", [[[3, 4], [5, 6]], [3, 4]]),
        ("aten::linear", [[3, 4], [5, 6]]),
        ("aten::conv2d", [[3, 4]]),
        ("aten::convolution_backward", [[1, 2, 3, 3], [1, 4, 3, 3], [7, 7, 1, 1]]),
        ("aten::embedding", [[3, 4]]),
        ("aten::scaled_dot_product_attention", [[3], [4], [5]]),
        ("aten::cat", [[[3, 4], [3, 4]], []]),
        ("aten::unheard_of", [[3, 4]]),
    ],
)
def test_what_sizes_do_not_tell_is_not_counted(name: str, shapes: list[Any]) -> None:
    assert work(name, shapes) is None


def test_products_of_complex_numbers_are_not_counted() -> None:
    assert work("aten::mm", [[3, 4], [4, 5]], "c10::complex<float>") is None


def test_an_output_is_found_among_the_inputs_of_what_follows() -> None:
    convolution = [[8, 16, 10, 10], [32, 16, 3, 3], []]
    assert operator_work.output_of(convolution, [[8, 32, 5, 5], [32]]) == [8, 32, 5, 5]
    assert operator_work.output_of(convolution, [[8, 32, 13, 5]]) is None  # wider than any padding makes it
    assert operator_work.output_of(convolution, [[8, 16, 10, 10]]) is None
    assert operator_work.output_of(convolution, [[8, 32]]) is None
    assert operator_work.output_of([[16, 10, 10], [32, 16, 3, 3]], [[32, 5, 5]]) is None
