"""Names of metrics in limits: those that there are pass, mistyped ones are refused with the nearest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laptime.analysis.budgets import refuse_unknown
from laptime.kit.errors import UsageError

PAGE = Path(__file__).resolve().parents[3] / "docs/metrics.md"
TAGS = [tag for tag in re.findall(r"^## `(.+)`$", PAGE.read_text(), re.MULTILINE) if "disturbance" not in tag]


@pytest.mark.parametrize(
    "name", [*TAGS, "latency/isolated/p95", "latency/open/p99", "reported/loss", "bytes/token"]
)
def test_every_metric_can_be_named(name: str) -> None:
    refuse_unknown(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("latncy", "latency"),
        ("througput", "throughput"),
        ("latency/isolated/p96", "p95"),
        ("memry/host", "memory"),
    ],
)
def test_a_mistyped_one_is_refused_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError) as told:
        refuse_unknown(name)
    assert near in str(told.value)
