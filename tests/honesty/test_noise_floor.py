"""What the doctor promises: a difference of the size that it names is found about four times in five."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.records.plan import BenchRequest
from laptime.testing.machine import ScriptedMachine
from laptime.verbs.bench import bench
from laptime.verbs.doctor.examination import _PRODUCTS, noise_floor

SECONDS = 0.005


def _word(difference: float, seed: int) -> str:
    """A comparison like the doctor's own, of two programs that differ by so much."""
    slower = "null:spin=1ms"
    machine = ScriptedMachine({"null:noop": SECONDS, slower: SECONDS * (1 + difference)}, seed=seed)
    request = BenchRequest(
        targets=["null:noop", slower],
        backends=["null"],
        regimes=["isolated"],
        processes=2,
        budget=2.0,
        precision=1e-4,
        save=False,
        timing_only=True,
    )
    run = bench(request, open_session=machine.open_session, clock=machine)
    return run.comparisons[0].word


@pytest.mark.slow
def test_a_difference_of_the_size_named_is_found() -> None:
    found = 0
    for seed in range(12):
        machine = ScriptedMachine({_PRODUCTS: SECONDS}, seed=seed)
        floor = noise_floor(quick=True, open_session=machine.open_session, clock=machine)
        assert 0.01 < floor.smallest < 0.06
        found += _word(floor.smallest, seed + 1000) == "slower"
    assert found >= 6  # 80 % of 12 are expected; fewer than 6 come up once in 250 times


def test_a_noisier_machine_sees_less() -> None:
    def smallest(**how: Any) -> float:
        machine = ScriptedMachine({_PRODUCTS: SECONDS}, seed=3, **how)
        return noise_floor(quick=True, open_session=machine.open_session, clock=machine).smallest

    assert smallest(noise=0.01) < smallest(noise=0.2) < 1.0


def test_the_floor_is_never_below_the_margin() -> None:
    machine = ScriptedMachine({_PRODUCTS: SECONDS}, noise=0.0001, tail=0.0, drift=0.0, between=0.0)
    floor = noise_floor(quick=True, open_session=machine.open_session, clock=machine)
    assert floor.smallest > 0.01
    assert floor.word in ("same", "unclear")
    assert floor.processes == 3
