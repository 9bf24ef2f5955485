"""Work of a trace: what is counted, what it took, and that nothing counts twice."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from laptime.analysis import roofline
from laptime.records.overview import Ceilings, Work
from laptime.trace.tables import work
from unit.trace.test_operators import launch, op, view_of
from unit.trace.test_operators import work as kernel

LINEAR: dict[str, Any] = {"Input_Dims": [[2, 4], [8, 4], [8]], "Input_type": ["float", "float", "float"]}
ADDMM: dict[str, Any] = {"Input_Dims": [[8], [2, 4], [4, 8]], "Input_type": ["float", "float", "float"]}
FLOP, BYTES = 2.0 * 2 * 4 * 8, 4.0 * (8 + 32 + 8 + 16)
LIMITS = Ceilings(device="made", flops={"float32": 1e9}, bandwidth=1e9, source="by hand")


def classes(*events: dict[str, Any]) -> dict[str, Work]:
    found = work.roofline(view_of(*events))
    assert found is not None
    return {row.kind: row for row in found.classes}


def test_a_nested_product_counts_once_with_all_its_time() -> None:
    found = classes(
        op("aten::linear", 0, 100, **LINEAR),
        op("aten::addmm", 10, 50, **ADDMM),
        launch(20, 5, 1),
        kernel("gemm", 30, 200, 1),
    )
    assert found == {"matmul": found["matmul"]}
    product = found["matmul"]
    assert (product.calls, product.total_ns, product.uncounted_ns) == (1, 200_000, 0)
    assert (product.flop, product.bytes) == ({"float32": FLOP}, BYTES)
    assert product.flops == pytest.approx(FLOP / 200e-6)


def test_an_operator_without_a_formula_leaves_it_to_what_it_calls() -> None:
    found = classes(
        op("aten::lstm", 0, 100, **LINEAR),
        op("aten::addmm", 10, 50, **ADDMM),
        launch(20, 5, 1),
        launch(70, 5, 2),
        kernel("gemm", 30, 200, 1),
        kernel("cell", 300, 40, 2),
    )
    assert found["matmul"].flop == {"float32": FLOP}
    assert (found["recurrent"].total_ns, found["recurrent"].uncounted_ns) == (40_000, 40_000)
    assert found["recurrent"].uncounted == ["aten::lstm"]


def test_calls_that_launched_nothing_are_not_counted() -> None:
    found = classes(
        op("aten::linear", 0, 100, **LINEAR),
        op("aten::linear", 200, 100, **LINEAR),
        launch(220, 5, 1),
        kernel("gemm", 230, 200, 1),
    )
    assert found["matmul"].calls == 1
    assert found["matmul"].flop == {"float32": FLOP}


def test_classes_sum_to_the_time_of_the_device() -> None:
    copied: dict[str, Any] = {"Input_Dims": [[6], [6], []], "Input_type": ["float", "float", "Scalar"]}
    found = classes(
        op("aten::linear", 0, 100, **LINEAR),
        launch(20, 5, 1),
        op("aten::copy_", 110, 20, **copied),
        launch(112, 5, 2),
        op("aten::unheard_of", 140, 20),
        launch(142, 5, 3),
        kernel("gemm", 230, 200, 1),
        kernel("Memcpy HtoD (Pageable -> Device)", 440, 10, 2, cat="gpu_memcpy"),
        kernel("mystery", 450, 30, 3),
        kernel("ncclKernel_AllReduce", 490, 7, 4),
        kernel("bare", 500, 5, 5),
    )
    times = {kind: row.total_ns for kind, row in found.items()}
    assert times == {"matmul": 200_000, "transfer": 10_000, "other": 35_000, "communication": 7_000}
    assert found["other"].uncounted[0] == "aten::unheard_of"


def test_without_an_accelerator_times_are_those_of_operators() -> None:
    found = classes(
        op("aten::linear", 0, 100, **LINEAR), op("aten::addmm", 10, 50, **ADDMM), op("aten::sum", 100, 30)
    )
    assert found["matmul"].total_ns == 100_000
    assert (found["reduction"].total_ns, found["reduction"].uncounted_ns) == (30_000, 30_000)


def test_a_convolution_takes_its_output_from_what_follows() -> None:
    convolved: dict[str, Any] = {
        "Input_Dims": [[1, 3, 8, 8], [5, 3, 3, 3], [], []],
        "Input_type": ["float", "float", "", ""],
    }
    inside = {**convolved, "Input_Dims": [[1, 3, 8, 8], [5, 3, 3, 3], [], [], []]}
    relu: dict[str, Any] = {"Input_Dims": [[1, 5, 4, 4]], "Input_type": ["float"]}
    found = classes(
        op("aten::conv2d", 0, 100, **convolved),
        op("aten::mkldnn_convolution", 10, 80, **inside),
        op("aten::relu", 100, 10, **relu),
    )
    assert found["convolution"].flop == {"float32": 2.0 * 5 * 16 * 27}
    alone = classes(op("aten::conv2d", 0, 100, **convolved))
    assert alone["convolution"].uncounted_ns == alone["convolution"].total_ns == 100_000


def test_a_file_without_shapes_says_how_to_record_them() -> None:
    found = work.roofline(view_of(op("aten::linear", 0, 100)))
    assert found is not None
    assert "record_shapes=True" in found.missing
    assert [row.kind for row in found.classes] == ["matmul"]


def test_launches_whose_work_is_missing_have_no_times() -> None:
    found = work.roofline(view_of(op("aten::linear", 0, 100, **LINEAR), launch(20, 5, 1)))
    assert found is not None
    assert found.missing
    assert not found.classes


def test_a_file_without_operators_has_no_roofline() -> None:
    assert work.roofline(view_of(kernel("bare", 0, 5, 1))) is None


def row(**fields: Any) -> Work:
    plain = Work(id="a", kind="matmul", name="aten::mm", calls=1, total_ns=1_000_000_000)
    return structs.replace(plain, **fields)


@pytest.mark.parametrize(
    ("flop", "moved", "bound", "share"),
    [
        (5e8, 1e8, "compute", 0.5),
        (1e8, 5e8, "memory", 0.5),
        (2e9, 1e8, "compute", None),
        (1e8, 2e9, "memory", None),
    ],
)
def test_the_nearer_ceiling_bounds(flop: float, moved: float, bound: str, share: float | None) -> None:
    made = roofline.beside(roofline.roofline([row(flop={"float32": flop}, bytes=moved)]), LIMITS)
    for found in (*made.classes, *made.operators):
        assert (found.bound, found.share) == (bound, share)
        assert bool(found.note) == (share is None)


def test_no_share_without_a_peak_for_the_dtype() -> None:
    made = roofline.beside(roofline.roofline([row(flop={"bfloat16": 1e8}, bytes=1e6)]), LIMITS)
    assert made.classes[0].share is None
    assert not made.classes[0].bound


def test_rates_are_of_what_was_counted() -> None:
    uncounted = row(id="b", name="aten::addbmm", uncounted_ns=1_000_000_000)
    (found,) = roofline.roofline([row(flop={"float32": 3e9}, bytes=1e9), uncounted]).classes
    assert (found.flops, found.bandwidth, found.intensity) == (3e9, 1e9, 3.0)
    assert (found.total_ns, found.uncounted_ns) == (2_000_000_000, 1_000_000_000)
