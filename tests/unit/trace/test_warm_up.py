"""Slow steps at the start are a phase of their own, outside the figures of a step."""

from __future__ import annotations

import json

import numpy as np
import pytest

from advice.made import parts
from fixtures import traces
from fixtures.kineto import A100, Recording
from laptime import rules
from laptime.records.profile import Profile
from laptime.trace import profile
from laptime.trace import profile as warm_up
from laptime.trace.reading import reader


def read(recording: Recording) -> Profile:
    document = {**recording.top, "traceEvents": recording.events}
    return profile.profile(profile.view(reader.parse(json.dumps(document).encode())))


def tuned_first(slow: int, settled: int) -> Recording:
    """Kernels are tried for 200 ms in each of the first steps; later ones take some 30 ms."""
    recording = Recording(A100)
    for number in range(slow + settled):
        with recording.step(number):
            parts.upload(recording)
            if number < slow:
                with recording.annotation("CachingAutotuner.benchmark_all_configs"):
                    recording.work(200_000)
            parts.forward(recording, 6, 10_000, "fp16")
            parts.backward(recording, 6, 20_000, "fp16")
            parts.adamw(recording, 600)
            recording.sync()
    return recording


@pytest.mark.parametrize(
    ("lengths", "first"),
    [
        ([900, 100, 101, 99, 100], 1),
        ([900, 400, 101, 99, 100], 2),
        ([900, 100, 101], 0),  # too few to say what is usual
        ([900, 100, 101, 400, 100], 0),  # a habit
        ([190, 100, 101, 99], 0),
        ([100, 100, 100, 900], 0),
        ([100], 0),
    ],
)
def test_how_many_steps_are_warm_up(lengths: list[int], first: int) -> None:
    assert warm_up.number(np.array(lengths, np.int64)) == first


def test_no_figure_of_a_step_has_the_warm_up_in_it() -> None:
    found, settled = read(tuned_first(2, 5)), read(tuned_first(0, 5))
    assert found.warm_up is not None
    assert [row.number for row in found.warm_up.steps] == [0, 1]
    assert found.warm_up.beyond_ns == pytest.approx(400e6, rel=0.05)
    assert [(row.kind, row.names[0][0]) for row in found.warm_up.host_work] == [
        ("autotuning", "CachingAutotuner.benchmark_all_configs")
    ]
    assert found.overview.steps == 5
    assert found.overview.step_ns == pytest.approx(settled.overview.step_ns, rel=0.02)
    assert [row.number for row in found.steps] == [2, 3, 4, 5, 6]
    for table in ("kernels", "copies"):
        assert sorted((row.id, row.calls) for row in getattr(found, table)) == sorted(
            (row.id, row.calls) for row in getattr(settled, table)
        )
    assert found.launches is not None
    assert settled.launches is not None
    assert found.launches.launches == settled.launches.launches
    assert found.launches.unlaunched == settled.launches.unlaunched == 0
    assert found.overview.totals.kernels == read(tuned_first(0, 7)).overview.totals.kernels


def test_advice_is_that_of_the_settled_steps() -> None:
    found, settled = read(tuned_first(2, 5)), read(tuned_first(0, 5))
    assert rules.verdict(found).bound == rules.verdict(settled).bound
    kinds = [[one.kind for one in rules.diagnose(each)] for each in (found, settled)]
    assert [kind for kind in kinds[0] if kind != "trace/warm-up"] == kinds[1]


def test_the_warm_up_is_named() -> None:
    (said,) = [one for one in rules.diagnose(read(tuned_first(2, 5))) if one.kind == "trace/warm-up"]
    assert said.gain is None
    assert "the first 2 steps took 409 ms more than settled ones of 30.8 ms" in said.sentence
    assert "autotuning 409 ms" in said.sentence


@pytest.mark.parametrize("name", ["resnet50_num_workers_0.json.gz", "ns_resolution_v100.json.gz"])
def test_even_steps_of_real_traces_have_none(name: str) -> None:
    found = profile.profile(profile.view(reader.read(traces.path(name))))
    assert found.warm_up is None
