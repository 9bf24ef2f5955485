"""The drawing of a roofline from very little."""

from __future__ import annotations

import pytest

from laptime.records.overview import Ceilings, Work
from laptime.reports.documents.profile import roofline

ROOFS = Ceilings(device="cores", flops={"float32": 1e11}, bandwidth=1e10, source="by hand")


@pytest.mark.parametrize("ceilings", [None, ROOFS])
def test_one_operator_is_drawn_with_and_without_roofs(ceilings: Ceilings | None) -> None:
    work = Work(
        id="a",
        kind="matmul",
        name="aten::mm",
        calls=1,
        total_ns=1000,
        flop={"float32": 8e8},
        bytes=1e6,
        flops=2e9,
        intensity=800.0,
    )
    drawn = str(roofline._plot([work], ceilings, [work]).draw(600.0))
    assert "FLOP per" in drawn
    assert "nan" not in drawn
