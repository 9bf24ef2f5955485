"""The energy pass: joules an item, gross and net, and the reason where there is nothing to read."""

from __future__ import annotations

import time
from typing import Any

import pytest

from laptime.probes import energy
from laptime.probes.energy import Absence, CounterMeter, energy_of


class Spin:
    """A workload of 2 ms and four items."""

    batch = 4
    synchronous = True
    calls = 0

    def call(self) -> None:
        self.calls += 1
        end = time.perf_counter() + 0.002
        while time.perf_counter() < end:
            pass

    def sync(self) -> None:
        pass


def meter(device: str, watts: float) -> CounterMeter:
    """A counter that rises by so many watts."""
    return CounterMeter(
        f"fake:{device}",
        lambda: time.perf_counter() * watts,
        device=device,
        covers=f"all of {device}",
        period=0.001,
    )


def install(patch: pytest.MonkeyPatch, meters: list[Any], absent: dict[str, Absence]) -> None:
    patch.setattr(energy, "survey", lambda: (meters, absent))


def test_a_constant_power_gives_that_power_and_joules_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [meter("cpu", 50.0)], {})
    work = Spin()
    series, details = energy_of(work, devices=["cpu"], seconds=0.1)
    values = {one.metric.tag: one.samples[0] for one in series}
    assert values["power/mean"] == pytest.approx(50.0, rel=0.02)
    assert values["energy/gross"] == pytest.approx(
        50.0 * details.energy.meters[0]["seconds"] / (work.calls * work.batch), rel=0.02
    )
    # The machine needs as much when idle, so nothing is left for the work itself.
    assert abs(values["energy/net"]) < 0.05 * values["energy/gross"]
    assert details.energy.items == work.calls * work.batch
    assert all("counter" in one.note for one in series)


def test_meters_of_other_devices_do_not_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [meter("cpu", 50.0), meter("cuda:0", 300.0)], {})
    series, _ = energy_of(Spin(), devices=["cuda:0"], seconds=0.05)
    power = next(one.samples[0] for one in series if one.metric.tag == "power/mean")
    assert power == pytest.approx(300.0, rel=0.02)


def test_no_sensor_is_no_number_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, [], {"rapl": Absence("hidden by the hypervisor", "rent bare metal")})
    series, details = energy_of(Spin(), devices=["cpu"], seconds=0.05)
    assert series == []
    assert details.energy.measured is False
    assert isinstance(details.energy.why, dict)
    assert "hypervisor" in details.energy.why["rapl"]["why"]


def test_a_meter_that_stops_answering_gives_null_and_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = CounterMeter("fake", lambda: None, device="cpu", covers="nothing", period=0.001)
    install(monkeypatch, [broken], {})
    series, details = energy_of(Spin(), devices=["cpu"], seconds=0.02)
    assert series == []
    assert details.energy.measured is False
    assert details.energy.meters[0]["joules"] is None
