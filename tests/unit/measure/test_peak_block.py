from __future__ import annotations

from typing import Any

import pytest

from laptime.measure.engine import Engine
from laptime.measure.passes import PEAK_RATE, SECONDS, peak_block
from laptime.measure.protocol import Done, Facts, Load, Pass, PeakWork, Prepare
from laptime.probes.scheduler import Reading
from laptime.records.details import Details, Peak
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Label

FACTS: dict[str, Any] = {"source": "of the measured float32 GEMM peak"}


def work(clock: Any, seconds: list[float], *, flops: float = 1e9) -> PeakWork:
    """Calls that take so long, the last for ever."""
    times = iter(seconds)
    last = seconds[-1]
    return PeakWork(
        call=lambda: clock.spend(next(times, last)), sync=lambda: None, flops=flops, facts=dict(FACTS)
    )


class Waits:
    """Evidence of a scheduler that keeps the program waiting for a share of the time."""

    cost = 1e-6

    def __init__(self, clock: Any, share: float) -> None:
        self._clock, self._share = clock, share

    def refresh_threads(self) -> None:
        pass

    def read(self) -> Reading:
        return Reading(self._clock.time * self._share, None, None, None)


def test_a_block_is_one_sample_of_about_its_length(clock: Any) -> None:
    block = peak_block(work(clock, [0.003]), evidence=None, clock=clock)
    assert block.metric == PEAK_RATE
    assert block.samples == [pytest.approx(1e9 / 0.003, rel=1e-3)]
    assert block.calls == [int(SECONDS / 0.003)]
    assert not any(block.label)


def test_the_first_call_finds_the_models_caches_and_does_not_count(clock: Any) -> None:
    block = peak_block(work(clock, [0.5, 0.004]), evidence=None, clock=clock)
    assert block.samples == [pytest.approx(1e9 / 0.004, rel=1e-3)]


def test_a_product_longer_than_the_block_is_timed_once(clock: Any) -> None:
    assert peak_block(work(clock, [0.3]), evidence=None, clock=clock).calls == [1]


@pytest.mark.parametrize(("share", "label"), [(0.5, Label.WAITED), (0.001, Label.NONE)])
def test_what_disturbs_a_block_is_on_its_label(clock: Any, share: float, label: Label) -> None:
    block = peak_block(work(clock, [0.004]), evidence=Waits(clock, share), clock=clock)  # type: ignore[arg-type]
    assert block.label == [int(label)]


class Model:
    """Has a peak, and no memory of it between two blocks."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.made = 0

    def workload(self, batch: int) -> PeakWork:
        return work(self._clock, [0.001])

    def facts(self) -> dict[str, Any]:
        return {}

    libraries = knobs = facts

    def devices(self) -> list[Device]:
        return [Device(name="cpu", model="CPU")]

    def peak_work(self) -> PeakWork:
        self.made += 1
        return work(self._clock, [0.004])


def test_the_engine_makes_the_work_anew_for_every_block(clock: Any) -> None:
    model = Model(clock)
    engine = Engine(lambda variant: model, clock=clock)
    variant = Variant(target="null:noop", backend="null")
    list(engine.answer(Load(variant=variant)))
    list(engine.answer(Prepare(batch=1)))
    for made in (1, 2):
        facts, done = engine.answer(Pass(kind="peak", batch=1))
        assert isinstance(facts, Facts)
        assert isinstance(done, Done)
        assert facts.details == Details(peak=Peak(**FACTS))
        assert len(facts.series) == 1
        assert model.made == made
