"""The device's clock: from cpufreq, from NVML, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laptime.probes import clocks


def test_the_mean_over_the_cores_is_read_in_hertz(tmp_path: Path) -> None:
    for core, kilohertz in enumerate((2_000_000, 3_000_000)):
        file = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq"
        file.parent.mkdir(parents=True)
        file.write_text(f"{kilohertz}\n")
    read = clocks.reader("cpu", root=str(tmp_path))
    assert read is not None
    assert read() == pytest.approx(2.5e9)


def test_a_machine_that_hides_its_clock_has_no_reader(tmp_path: Path) -> None:
    assert clocks.reader("cpu", root=str(tmp_path)) is None
    assert clocks.reader("mps") is None


class Pynvml:
    """As much of pynvml as a clock needs: one GPU at 1,980 MHz."""

    class NVMLError(Exception):
        pass

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetUUID": "GPU-1",
            "nvmlDeviceGetClockInfo": 1980,
        }
        if name in answers:
            return lambda *arguments: answers[name]
        if name.startswith("NVML_"):
            raise AttributeError(name)
        return lambda *arguments: None


def test_a_gpus_clock_comes_from_nvml_in_hertz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    read = clocks.reader("cuda:0", library=Pynvml())
    assert read is not None
    assert read() == pytest.approx(1.98e9)


def test_a_gpu_that_nvml_does_not_know_has_no_reader() -> None:
    assert clocks.reader("cuda:7", library=Pynvml()) is None
