"""The clock of the device that works: a GPU's through NVML, a CPU's through cpufreq.

Virtual machines hide both; then there is no reader."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from laptime.kit import system_files
from laptime.kit.clock import Clock
from laptime.probes import EndWatch
from laptime.records.series import read_metrics

METRICS = (CLOCK,) = read_metrics("""
disturbance/clock Hz higher clock
    Clock at the end of the sample's block: a GPU's multiprocessors, or the mean of a CPU's cores.
    Lies when: Read at the end of a block; a dip inside it is not seen.
""")
Read = Callable[[], float | None]


def watch(device: str, clock: Clock) -> EndWatch | None:
    """The device's clock at the end of each block."""
    read = reader(device)
    if read is None:
        return None
    return EndWatch(lambda block: [] if (hertz := read()) is None else [block.beside(CLOCK, hertz)])


def reader(device: str, root: str = "/", library: Any | None = None) -> Read | None:
    """A function that reads the clock of a device ("cpu", "cuda:0") in Hz; None when it cannot be read here.
    library: stands in for pynvml in tests."""
    if device.startswith("cuda"):
        from laptime.probes.nvml import Nvml

        try:
            connection = Nvml(library)
            handle = connection.handle(device)
        except Exception:  # no NVML, no such GPU, no right to ask: there is no reader
            return None
        if handle is None or connection.hertz(handle) is None:
            return None
        return lambda: connection.hertz(handle)
    return _cpu_reader(Path(root)) if device == "cpu" else None


def _cpu_reader(base: Path) -> Read | None:
    folder = base / "sys/devices/system/cpu"
    files = sorted(folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    if not files or system_files.number(files[0]) is None:
        return None

    def read() -> float | None:
        clocks = [number * 1e3 for file in files if (number := system_files.number(file)) is not None]
        return sum(clocks) / len(clocks) if clocks else None

    return read
