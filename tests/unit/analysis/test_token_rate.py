"""Tokens per second and bytes per token, from a model's facts and its speed."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.analysis.architecture import work_of
from laptime.analysis.summary import summarize
from laptime.measure.metrics import LATENCY
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.series import Series
from laptime.verbs.bench.postprocess import comparisons


def case(batch: int = 1, phase: str = "decode", seconds: float = 0.01, **llm: Any) -> Case:
    axes: dict[str, Any] = {"batch": batch, "device": "cpu", "phase": phase, "prompt": 96, "output": 8}
    series = [Series(metric=LATENCY, regime="isolated", samples=[seconds] * 50)]
    facts = {"phase": phase, "tokens": 1 if phase == "decode" else 96, "context": 100, **llm}
    return Case(
        key=f"{phase}/{batch}", target="m", axes=axes, series=series, details=Details(model={"llm": facts})
    )


def test_prefill_has_tokens_per_second_and_no_bytes() -> None:
    stats = summarize(case(4, "prefill"))
    assert stats["tokens/rate"].value == pytest.approx(4 * 96 / 0.01)
    assert not any(tag.startswith("bytes/") for tag in stats)


def test_decoding_moves_weights_once_a_step_and_the_cache_once_a_sequence() -> None:
    held: dict[str, Any] = {"weight_bytes": 1_000_000, "cache_bytes": 10_000, "bandwidth": 1e9}
    stats = summarize(case(4, **held))
    per_token = 1_000_000 / 4 + 10_000 * 1.01
    assert stats["bytes/token"].value == pytest.approx(per_token)
    assert stats["bytes/rate"].value == pytest.approx(4 * per_token / 0.01)
    assert stats["bytes/share"].value == pytest.approx(4 * per_token / 0.01 / 1e9)


def test_phases_are_not_compared_with_one_another() -> None:
    prefill, decode, faster = case(1, "prefill"), case(), case(seconds=0.005)
    assert work_of(prefill) != work_of(decode)
    assert [(c.baseline, c.candidate) for c in comparisons([prefill, decode, faster])] == [
        ("decode/1", "decode/1")
    ]
