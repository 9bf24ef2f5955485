"""NVIDIA GPUs through NVML (package nvidia-ml-py): energy, power, clocks, throttling, neighbours.

NVML counts all GPUs of the machine; frameworks count those that CUDA_VISIBLE_DEVICES leaves, in its order.
A query that a GPU does not support is None."""

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from laptime.kit import system_files
from laptime.kit.extras import install
from laptime.probes.energy import Absence, CounterMeter, Meter, PowerMeter
from laptime.records.environment import Device

COUNTER_PERIOD = 0.1  # the energy counter (Volta and later) moves every 20 to 100 ms, depending on the GPU
POWER_PERIOD = 0.1  # the power reading is an average over up to a second on Ampere and later
_CLOCK_SM, _TEMPERATURE_GPU = 1, 0  # NVML_*, nvml.h
# nvmlClocksEventReason*, nvml.h: what holds the clock down.
THROTTLES = {
    0x0000000000000004: "power limit",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000010: "sync boost",
    0x0000000000000020: "temperature (software)",
    0x0000000000000040: "temperature (hardware)",
    0x0000000000000080: "power brake",
}


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU as it is now; what it does not say is None."""

    index: int  # NVML's number
    device: str  # how frameworks call it, cuda:0; "" when it is hidden from them
    uuid: str
    model: str
    driver: str | None
    # memory, memory_used: bytes
    memory: int | None
    memory_used: int | None
    # power_limit, power: watts
    power_limit: float | None
    power: float | None
    # clock, max_clock: Hz of the streaming multiprocessors
    clock: float | None
    max_clock: float | None
    temperature: float | None  # degrees Celsius
    throttles: list[str]  # what holds the clock down now
    busy: float | None  # share of the last sampling period in which a kernel ran, 0 to 1
    persistent: bool | None
    others: list[int]  # process ids of other programs on it

    def as_device(self) -> Device:
        """Return the constant facts of the device, for the environment of a run."""
        details = {"uuid": self.uuid, "power_limit": self.power_limit, "max_clock": self.max_clock}
        return Device(
            name=self.device or f"nvml:{self.index}",
            model=self.model,
            memory=self.memory,
            driver=self.driver,
            details={name: value for name, value in details.items() if value is not None},
        )


class Nvml:
    """An open connection to the driver. library: the module pynvml, or a fake of it.
    Raises OSError: there is no package, no driver or no permission; the message says which."""

    def __init__(self, library: ModuleType | Any | None = None) -> None:
        self._library = library or import_module("pynvml")
        try:
            self._library.nvmlInit()
            count = int(self._library.nvmlDeviceGetCount())
        except self._library.NVMLError as error:
            raise OSError(f"the NVIDIA driver does not answer ({error})") from error
        self.handles = [self._library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]

    def ask(self, name: str, *arguments: Any) -> Any:
        """Answer of the function `name`; None when this GPU, driver or package does not know it."""
        function = getattr(self._library, name, None)
        if function is None:
            return None
        try:
            answer = function(*arguments)
        except self._library.NVMLError:
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    def gpus(self, environ: Mapping[str, str] | None = None) -> list[Gpu]:
        uuids = [str(self.ask("nvmlDeviceGetUUID", handle) or "") for handle in self.handles]
        names = device_names(uuids, os.environ if environ is None else environ)
        driver = self.ask("nvmlSystemGetDriverVersion")
        return [
            self._gpu(index, handle, uuid=uuids[index], device=names[index], driver=driver)
            for index, handle in enumerate(self.handles)
        ]

    def _gpu(self, index: int, handle: Any, *, uuid: str, device: str, driver: str | None) -> Gpu:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        rates = self.ask("nvmlDeviceGetUtilizationRates", handle)
        persistent = self.ask("nvmlDeviceGetPersistenceMode", handle)
        running = [
            *(self.ask("nvmlDeviceGetComputeRunningProcesses", handle) or ()),
            *(self.ask("nvmlDeviceGetGraphicsRunningProcesses", handle) or ()),
        ]
        return Gpu(
            index=index,
            device=device,
            uuid=uuid,
            model=str(self.ask("nvmlDeviceGetName", handle) or "NVIDIA GPU"),
            driver=driver,
            memory=int(memory.total) if memory else None,
            memory_used=int(memory.used) if memory else None,
            power_limit=_scale(self.ask("nvmlDeviceGetEnforcedPowerLimit", handle), 1e-3),
            power=self.watts(handle),
            clock=self.hertz(handle),
            max_clock=_scale(self.ask("nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM), 1e6),
            temperature=_scale(self.ask("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU), 1.0),
            throttles=self.throttles(handle),
            busy=None if rates is None else rates.gpu / 100.0,
            persistent=None if persistent is None else bool(persistent),
            others=sorted({int(process.pid) for process in running} - {os.getpid()}),
        )

    def handle(self, device: str) -> Any | None:
        """Handle of the GPU that frameworks call `device`; None when there is no such."""
        names = [gpu.device for gpu in self.gpus()]
        return self.handles[names.index(device)] if device in names else None

    def hertz(self, handle: Any) -> float | None:
        """Clock of the streaming multiprocessors now; None when it is not told."""
        return _scale(self.ask("nvmlDeviceGetClockInfo", handle, _CLOCK_SM), 1e6)

    def watts(self, handle: Any) -> float | None:
        return _scale(self.ask("nvmlDeviceGetPowerUsage", handle), 1e-3)

    def joules(self, handle: Any) -> float | None:
        """Energy since the driver was loaded; None before Volta and on some virtual GPUs."""
        return _scale(self.ask("nvmlDeviceGetTotalEnergyConsumption", handle), 1e-3)

    def throttles(self, handle: Any) -> list[str]:
        """List the reasons that hold the clock down now; idling and a clock set by the user are none."""
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return [] if bits is None else [reason for bit, reason in THROTTLES.items() if bits & bit]


def open_meters(
    library: ModuleType | Any | None = None, root: str = "/"
) -> tuple[list[Meter], Absence | None]:
    """One meter for each GPU that frameworks can see: its energy counter, or else its power integrated."""
    if library is None and not has_hardware(root):
        return [], Absence("no NVIDIA GPU was found")
    try:
        connection = Nvml(library)
    except ImportError:
        return [], Absence("the package nvidia-ml-py is not installed", install("energy"))
    except OSError as error:
        return [], Absence(str(error), "nvidia-smi")
    found = [_meter(connection, gpu) for gpu in connection.gpus() if gpu.device]
    if meters := [meter for meter in found if meter is not None]:
        return meters, None
    return [], Absence("no visible NVIDIA GPU reports energy or power", "echo $CUDA_VISIBLE_DEVICES")


def _meter(connection: Nvml, gpu: Gpu) -> Meter | None:
    handle = connection.handles[gpu.index]
    covers = f"{gpu.device} ({gpu.model}, whole board)"
    name = f"nvml:{gpu.index}"
    if connection.joules(handle):  # a counter at 0 was never started: no reading
        joules = partial(connection.joules, handle)
        return CounterMeter(name, joules, device=gpu.device, covers=covers, period=COUNTER_PERIOD)
    if connection.watts(handle):
        watts = partial(connection.watts, handle)
        return PowerMeter(name, watts, device=gpu.device, covers=covers, period=POWER_PERIOD)
    return None


def device_names(uuids: list[str], environ: Mapping[str, str]) -> list[str]:
    """Say how frameworks call each of NVML's GPUs under CUDA_VISIBLE_DEVICES: cuda:0 ..., "" when hidden.

    Lies when: GPUs of different kinds are in the machine and CUDA_DEVICE_ORDER is not PCI_BUS_ID: then CUDA
    puts the fastest first."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [f"cuda:{index}" for index in range(len(uuids))]
    names = [""] * len(uuids)
    for position, word in enumerate(part.strip() for part in visible.split(",")):
        if word.isdigit():
            index = int(word) if int(word) < len(uuids) else None
        else:
            matches = [index for index, uuid in enumerate(uuids) if word and uuid.startswith(word)]
            index = matches[0] if len(matches) == 1 else None
        if index is None:  # CUDA stops at the first entry that it does not know
            break
        names[index] = f"cuda:{position}"
    return names


def has_hardware(root: str = "/") -> bool:
    """Whether an NVIDIA device or its driver shows in the system; cheap, and needs no package."""
    base = Path(root)
    doors = ("proc/driver/nvidia/version", "dev/nvidiactl", "dev/dxg")  # the last one is Windows' for Linux
    if any((base / door).exists() for door in doors):
        return True
    vendors = (base / "sys/bus/pci/devices").glob("*/vendor")
    return any(system_files.text(vendor) == "0x10de" for vendor in vendors)


def _scale(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor
