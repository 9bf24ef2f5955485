"""Energy: counters, wraps, integrated power, idle baseline; never 0 for no reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.fake_root import FakeRoot
from laptime.probes import energy, nvml, rapl, zeus_soc
from laptime.probes.energy import CounterMeter, PowerMeter, integrate, measure


def _replay(values: list[float | None]) -> Callable[[], float | None]:
    left: Iterator[float | None] = iter(values)
    return lambda: next(left)


def _counter(
    values: list[float | None], *, period: float = 0.0, wraps_at: float | None = None
) -> CounterMeter:
    return CounterMeter(
        "fake", _replay(values), device="cpu", covers="a fake", period=period, wraps_at=wraps_at
    )


def _used(meter: CounterMeter) -> float | None:
    return measure([meter], lambda: None)[0].joules


def test_a_counter_gives_the_difference() -> None:
    assert _used(_counter([100.0, 130.5])) == 30.5


def test_a_wrap_of_the_counter_is_put_right() -> None:
    assert _used(_counter([260.0, 10.0], wraps_at=262.0)) == pytest.approx(12.0)


def test_a_counter_that_went_back_without_a_known_range_is_no_reading() -> None:
    assert _used(_counter([260.0, 10.0])) is None


@pytest.mark.parametrize("values", [[None, 5.0], [5.0, None]])
def test_a_failed_reading_is_none_and_says_so(values: list[float | None]) -> None:
    found = measure([_counter(values)], lambda: None)[0]
    assert found.joules is None
    assert found.watts is None
    assert "no reading" in found.note


def test_a_counter_that_stands_still_is_none_and_not_zero() -> None:
    meter = _counter([5.0, 5.0], period=0.0005)
    found = measure([meter], lambda: time.sleep(0.02))[0]
    assert found.joules is None


def test_a_short_window_is_noted() -> None:
    found = measure([_counter([0.0, 1.0], period=1.0)], lambda: None)[0]
    assert found.joules == 1.0
    assert "short" in found.note


def test_power_is_energy_over_the_window() -> None:
    found = energy.Energy(meter="m", device="cpu", covers="x", method="counter", joules=50.0, seconds=2.0)
    assert found.watts == 25.0


def test_idle_power_leaves_out_meters_without_reading() -> None:
    good, bad = _counter([0.0, 3.0]), _counter([None, None])
    bad.name = "bad"
    assert list(energy.idle_watts([good, bad], 0.01)) == ["fake"]


def test_constant_power_integrates_to_power_times_time() -> None:
    assert integrate([(0.0, 100.0), (0.5, 100.0), (2.0, 100.0)]) == pytest.approx(200.0)


def test_rising_power_integrates_by_trapezoids() -> None:
    assert integrate([(0.0, 0.0), (2.0, 100.0)]) == pytest.approx(100.0)


def test_fewer_than_two_power_readings_are_no_energy() -> None:
    assert integrate([]) is None
    assert integrate([(0.0, 50.0)]) is None


def test_a_power_meter_samples_while_the_window_runs() -> None:
    meter = PowerMeter("p", lambda: 40.0, device="cpu", covers="x", period=0.01)
    found = measure([meter], lambda: time.sleep(0.1))[0]
    assert found.method == "integrated power"
    assert found.joules == pytest.approx(4.0, rel=0.3)
    assert found.watts == pytest.approx(40.0, rel=0.3)


def test_a_power_meter_without_readings_gives_none() -> None:
    meter = PowerMeter("p", lambda: None, device="cpu", covers="x", period=0.01)
    assert measure([meter], lambda: time.sleep(0.02))[0].joules is None


def test_meters_stop_when_the_window_raises() -> None:
    meter = PowerMeter("p", lambda: 1.0, device="cpu", covers="x", period=0.01)

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        measure([meter], fail)
    assert meter._thread is None


def test_every_source_either_works_or_says_why_not() -> None:
    found, absent = energy.survey()
    sources = {meter.name.partition(":")[0] for meter in found}
    assert {"nvml", "rapl"} <= sources | set(absent)
    assert all(absence.why for absence in absent.values())


# RAPL


def _zone(tree: FakeRoot, zone: str, name: str, microjoules: int | str) -> None:
    tree.put(f"sys/class/powercap/{zone}/name", name)
    tree.put(f"sys/class/powercap/{zone}/energy_uj", str(microjoules))
    tree.put(f"sys/class/powercap/{zone}/max_energy_range_uj", "262143328850")


@pytest.fixture
def server(tmp_path: Path) -> FakeRoot:
    tree = FakeRoot(tmp_path)
    _zone(tree, "intel-rapl:0", "package-0", 1_000_000)
    _zone(tree, "intel-rapl:0:0", "dram", 500_000)
    _zone(tree, "intel-rapl:0:1", "core", 900_000)
    _zone(tree, "intel-rapl:1", "package-1", 2_000_000)
    _zone(tree, "intel-rapl:2", "psys", 9_000_000)
    return tree


def test_packages_and_memory_are_counted_once(server: FakeRoot) -> None:
    found, absent = rapl.open_meters(server.root)
    assert [meter.name for meter in found] == ["rapl:package-0", "rapl:dram-0", "rapl:package-1"]
    assert absent is None
    assert {meter.device for meter in found} == {"cpu"}


def test_rapl_counts_microjoules_and_wraps(server: FakeRoot) -> None:
    meter = rapl.open_meters(server.root)[0][0]
    meter.start()
    _zone(server, "intel-rapl:0", "package-0", 3_500_000)
    assert meter.stop() == pytest.approx(2.5)
    _zone(server, "intel-rapl:0", "package-0", 262143328000)
    meter.start()
    _zone(server, "intel-rapl:0", "package-0", 999_150)
    assert meter.stop() == pytest.approx(1.0)


def test_closed_counters_name_the_command_that_opens_them(server: FakeRoot) -> None:
    _zone(server, "intel-rapl:1", "package-1", "")  # as when reading is refused
    found, absent = rapl.open_meters(server.root)
    assert found == []
    assert absent is not None
    assert absent.next == "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"


def test_without_powercap_the_reason_depends_on_the_machine(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    tree.put("proc/cpuinfo", "processor: 0\nflags: fpu hypervisor\n")
    _, guest = rapl.open_meters(tree.root)
    assert guest is not None
    assert "hypervisor" in guest.why
    assert guest.next == ""
    tree.put("proc/cpuinfo", "processor: 0\nflags: fpu\n")
    _, metal = rapl.open_meters(tree.root)
    assert metal is not None
    assert "modprobe" in metal.next


# NVML


class FakeNvml:
    """pynvml for one or more GPUs; what is not in `answers` is not supported."""

    class NVMLError(Exception):
        pass

    def __init__(self, *gpus: dict[str, object], broken: bool = False) -> None:
        self._gpus = gpus
        self._broken = broken

    def nvmlInit(self) -> None:
        if self._broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86"

    def __getattr__(self, name: str) -> Callable[..., object]:
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)

        def answer(handle: int, *_: object) -> object:
            gpu = self._gpus[handle]
            if name not in gpu:
                raise self.NVMLError("Not Supported")
            value = gpu[name]
            return value() if callable(value) else value

        return answer


def _h200(uuid: str = "GPU-aaaa", **more: object) -> dict[str, object]:
    return {
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetName": b"NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150 * 10**9, used=10**9),
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetPowerUsage": 80_000,
        "nvmlDeviceGetClockInfo": 345,
        "nvmlDeviceGetMaxClockInfo": 1980,
        "nvmlDeviceGetTemperature": 31,
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=25, memory=0),
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4711)],
        **more,
    }


@pytest.fixture(autouse=True)
def _all_gpus_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_gpu_is_told_in_base_units() -> None:
    gpu = nvml.Nvml(FakeNvml(_h200())).gpus()[0]
    assert (gpu.device, gpu.model, gpu.driver) == ("cuda:0", "NVIDIA H200", "570.86")
    assert (gpu.power_limit, gpu.power) == (700.0, 80.0)
    assert (gpu.clock, gpu.max_clock) == (345e6, 1980e6)
    assert (gpu.busy, gpu.others) == (0.25, [4711])
    assert gpu.as_device().details["power_limit"] == 700.0


def test_what_a_gpu_does_not_support_is_none() -> None:
    gpu = nvml.Nvml(FakeNvml({"nvmlDeviceGetUUID": "GPU-a", "nvmlDeviceGetName": "Orin"})).gpus()[0]
    assert gpu.power is None
    assert gpu.memory is None
    assert gpu.busy is None
    assert gpu.throttles == []
    assert gpu.others == []


def test_throttle_reasons_are_words_and_idling_is_none_of_them() -> None:
    bits = 0x1 | 0x4 | 0x40
    new = FakeNvml(_h200(nvmlDeviceGetCurrentClocksEventReasons=bits))
    old = FakeNvml(_h200(nvmlDeviceGetCurrentClocksThrottleReasons=bits))
    for library in (new, old):
        assert nvml.Nvml(library).gpus()[0].throttles == ["power limit", "temperature (hardware)"]


def test_the_energy_counter_is_preferred_and_in_joules() -> None:
    readings = iter([5_000, 5_000, 7_500])
    library = FakeNvml(_h200(nvmlDeviceGetTotalEnergyConsumption=lambda: next(readings)))
    found, absent = nvml.open_meters(library)
    assert absent is None
    assert (found[0].name, found[0].device, found[0].method) == ("nvml:0", "cuda:0", "counter")
    found[0].start()
    assert found[0].stop() == pytest.approx(2.5)


def test_without_a_counter_power_is_integrated() -> None:
    found, _ = nvml.open_meters(FakeNvml(_h200()))
    assert found[0].method == "integrated power"


def test_a_counter_that_says_zero_is_not_a_counter() -> None:
    found, _ = nvml.open_meters(FakeNvml(_h200(nvmlDeviceGetTotalEnergyConsumption=0)))
    assert found[0].method == "integrated power"


def test_a_gpu_that_tells_neither_is_absent_with_a_reason() -> None:
    found, absent = nvml.open_meters(FakeNvml({"nvmlDeviceGetUUID": "GPU-a"}))
    assert found == []
    assert absent is not None


def test_a_driver_that_does_not_answer_is_a_reason_and_no_error() -> None:
    found, absent = nvml.open_meters(FakeNvml(broken=True))
    assert found == []
    assert absent is not None
    assert "Driver" in absent.why


def test_a_machine_without_nvidia_hardware_is_not_told_to_install_anything(tmp_path: Path) -> None:
    _, absent = nvml.open_meters(root=str(tmp_path))
    assert absent is not None
    assert absent.next == ""


def test_hardware_is_seen_on_the_bus(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    tree.put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x8086\n")
    assert not nvml.has_hardware(tree.root)
    tree.put("sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n")
    assert nvml.has_hardware(tree.root)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("2,0", ["cuda:1", "", "cuda:0"]),
        ("GPU-bb", ["", "cuda:0", ""]),
        ("", ["", "", ""]),
        ("1,9,0", ["", "cuda:0", ""]),
        ("GPU-", ["", "", ""]),
    ],
)
def test_devices_are_named_as_cuda_names_them(visible: str | None, expected: list[str]) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert nvml.device_names(["GPU-aa", "GPU-bb", "GPU-cc"], environ) == expected


def test_hidden_gpus_have_no_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found, _ = nvml.open_meters(FakeNvml(_h200("GPU-a"), _h200("GPU-b")))
    assert [(meter.name, meter.device) for meter in found] == [("nvml:1", "cuda:0")]


# Zeus


def test_a_jetson_total_is_not_added_to_its_parts() -> None:
    readings = iter([1000.0, 1000.0, 4000.0])

    def total() -> SimpleNamespace:
        return SimpleNamespace(cpu_energy_mj=1.0, gpu_energy_mj=2.0, total_energy_mj=next(readings))

    (meter,) = zeus_soc.soc_meters(SimpleNamespace(get_total_energy_consumption=total), "Jetson")
    meter.start()
    assert meter.stop() == pytest.approx(3.0)


def test_an_apple_chip_is_the_sum_of_its_parts() -> None:
    reading = SimpleNamespace(cpu_total_mj=1, gpu_mj=2, gpu_sram_mj=None, dram_mj=3, ane_mj=4)
    assert zeus_soc.covering(reading) == ["cpu_total_mj", "gpu_mj", "dram_mj", "ane_mj"]


def test_a_chip_that_tells_nothing_has_no_meter() -> None:
    soc = SimpleNamespace(get_total_energy_consumption=SimpleNamespace)
    assert zeus_soc.soc_meters(soc, "Jetson") == []


def test_amd_gpus_whose_counter_is_wrong_are_left_out() -> None:
    def gpu(works: bool) -> SimpleNamespace:
        return SimpleNamespace(
            supports_get_total_energy_consumption=lambda: works,
            get_total_energy_consumption=lambda: 2000,
            get_name=lambda: "MI300X",
        )

    found = zeus_soc.amd_meters([gpu(False), gpu(True)])
    assert [meter.device for meter in found] == ["cuda:1"]


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("etc/nv_tegra_release", "R36", "Jetson"),
        ("proc/device-tree/model", "NVIDIA Jetson AGX Orin", "Jetson"),
        ("dev/kfd", "", "AMD GPU"),
    ],
)
def test_devices_for_zeus_are_found_without_importing_it(
    tmp_path: Path, path: str, text: str, kind: str
) -> None:
    tree = FakeRoot(tmp_path)
    tree.put(path, text)
    assert zeus_soc.device_kind(tree.root) == kind
