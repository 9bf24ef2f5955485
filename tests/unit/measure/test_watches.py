from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from laptime.backends import null
from laptime.kit import registry
from laptime.kit.clock import Clock, SystemClock
from laptime.kit.errors import LaptimeError
from laptime.measure.engine import Engine
from laptime.measure.protocol import Block, Done, Failed, Load, Message, Prepare, Samples
from laptime.probes import TimedBlock, watches
from laptime.records.plan import Variant
from laptime.records.series import Label, Metric, Series
from laptime.testing import Broken, check_probe

FANS = Metric(
    tag="evidence/fans",
    unit="Hz",
    title="fan speed",
    meaning="Mean speed of the fans at the end of the sample's block.",
    lies_when="Fans lag behind heat by seconds.",
)


class FanWatch:
    def __init__(self) -> None:
        self.blocks: list[TimedBlock] = []
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def end(self, block: TimedBlock) -> list[Series]:
        self.blocks.append(block)
        if block.label:
            block.label[0] |= Label.CLOCK
        return [block.beside(FANS, 20.0 * self.begun)]


@pytest.fixture
def fans(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A probe of another package: a module behind an entry point, and nothing else."""
    module: Any = ModuleType("laptime_fans")
    module.__doc__ = "The fans of the machine."
    module.METRICS = (FANS,)
    module.opened = []

    def watch(device: str, clock: Clock) -> FanWatch:
        module.opened.append((device, FanWatch()))
        return module.opened[-1][1]

    module.watch = watch
    monkeypatch.setitem(sys.modules, "laptime_fans", module)
    point = SimpleNamespace(name="fans", load=lambda: module)
    guests = registry._guests
    monkeypatch.setattr(
        registry, "_guests", lambda room: {"fans": point} if room == "probes" else guests(room)
    )
    return module


def engine_of(call: Any) -> Engine:
    variant = Variant(target="null:noop", backend="null")
    engine = Engine(lambda variant: null.open_object(call, lambda batch: None, variant))
    for command in (Load(variant=variant), Prepare(batch=1)):
        assert isinstance(list(engine.answer(command))[-1], Done)
    return engine


def block_of(engine: Engine, regime: str = "isolated") -> Message:
    return next(iter(engine.answer(Block(batch=1, regime=regime, seconds=0.001, min_calls=5, rate=1000.0))))


@pytest.mark.parametrize("regime", ["isolated", "saturated", "paced"])
def test_a_probe_of_another_package_is_read_beside_every_block(fans: Any, regime: str) -> None:
    engine = engine_of(lambda x: None)
    first, second = block_of(engine, regime), block_of(engine, regime)
    assert isinstance(first, Samples)
    assert isinstance(second, Samples)
    for number, samples in enumerate((first, second), start=1):
        latency = samples.series[0]
        (column,) = [series for series in samples.series if series.metric == FANS]
        assert column.regime == regime
        assert column.samples == [20.0 * number] * len(latency.samples)
    (opened,) = fans.opened
    assert opened[0] == "cpu"
    assert len(opened[1].blocks[0].seconds) == len(first.series[0].samples)


def test_a_watch_can_label_samples(fans: Any) -> None:
    samples = block_of(engine_of(lambda x: None))
    assert isinstance(samples, Samples)
    assert samples.series[0].label[0] & Label.CLOCK
    assert not any(bits & Label.CLOCK for bits in samples.series[0].label[1:])


def test_a_block_whose_calls_fail_is_ended_too_and_is_empty(fans: Any) -> None:
    calls: list[object] = []

    def call(x: Any) -> None:
        calls.append(x)
        if len(calls) > 1:
            raise ValueError("planted")

    assert isinstance(block_of(engine_of(call)), Failed)
    ((_, watch),) = fans.opened
    assert watch.begun == 1
    assert watch.blocks[0].seconds == []


def test_a_probe_that_cannot_read_here_is_left_out(fans: Any) -> None:
    fans.watch = lambda device, clock: None
    samples = block_of(engine_of(lambda x: None))
    assert isinstance(samples, Samples)
    assert FANS not in [series.metric for series in samples.series]


def test_a_broken_probe_is_no_secret(fans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> ModuleType:
        raise ImportError("planted")

    point = SimpleNamespace(name="fans", load=load)
    monkeypatch.setattr(registry, "_guests", lambda room: {"fans": point} if room == "probes" else {})
    with pytest.raises(LaptimeError, match="fans") as caught:
        watches("cpu", SystemClock)
    assert "planted" in caught.value.why


def test_the_contract_is_checked(fans: Any) -> None:
    check_probe("fans")
    fans.METRICS = ()
    with pytest.raises(Broken, match="evidence/fans"):
        check_probe("fans")
