"""CUDA: times by events, memory split, copies to and from the device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from laptime.backends._shared import torch
from laptime.backends.torch import tensors
from laptime.backends.torch.setup import find_held
from laptime.records.series import Metric, Series

if TYPE_CHECKING:
    from laptime.backends.torch.workload import TorchWorkload

_HEADROOM = 1.3  # the device waits so much longer than the host needed to queue one call
_LONGEST_WAIT = 0.25  # seconds that the device is held back at most for one call


class Clock(Protocol):
    """Marks in the device's queue. Seam for tests: a fake one proves sign and unit."""

    def mark(self) -> Any: ...

    def hold(self, seconds: float) -> None:
        """Keep the device busy for about so long, so that what follows is queued before it can start."""

    def wait(self) -> None: ...


class DeviceClock:
    def __init__(self, device: torch.device) -> None:
        import torch

        self._device = device
        self._torch: Any = torch
        # clock_rate is in kHz; torch before 2.6 does not say it.
        khz = getattr(torch.cuda.get_device_properties(device), "clock_rate", 1_500_000)
        self._cycles_per_second = khz * 1e3

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self._device))
        return event

    def hold(self, seconds: float) -> None:
        with self._torch.cuda.device(self._device):
            self._torch.cuda._sleep(int(seconds * self._cycles_per_second))

    def wait(self) -> None:
        self._torch.cuda.synchronize(self._device)


def event_times(call: Callable[[], Any], calls: int, *, clock: Clock) -> list[float]:
    """Seconds between events recorded around each of `calls` queued calls, in order.

    Before each call the device is held back for as long as the host needs to queue it: without that the
    events of a model with small kernels would enclose the time in which the device waits for the host.
    One wait at the end. `start.elapsed_time(end)` is in milliseconds.

    Lies when: one call queues more kernels than the driver's queue takes (about a thousand); the rest of
    such a call is queued while it runs, and gaps between its kernels count."""
    clock.wait()
    began = time.perf_counter()
    call()
    queueing = min((time.perf_counter() - began) * _HEADROOM, _LONGEST_WAIT)
    clock.wait()
    marks = []
    for _ in range(calls):
        clock.hold(queueing)
        start = clock.mark()
        call()
        marks.append((start, clock.mark()))
    clock.wait()
    return [start.elapsed_time(end) * 1e-3 for start, end in marks]


PEAK, WEIGHTS, ACTIVATIONS, RESERVED, FIRST_PEAK, CONTEXT = (
    Metric(
        tag=f"memory/device/{part}",
        unit="B",
        title=f"device memory, {title or part}",
        better="lower",
        meaning=meaning,
    )
    for part, title, meaning in (
        ("peak", "", "Most bytes in use by tensors during a warm call."),
        ("weights", "", "Parameters and buffers, each storage once."),
        ("activations", "", "Peak memory of a warm call above what is allocated before it."),
        ("reserved", "", "Most device memory that the allocator holds."),
        ("first_peak", "first call", "Peak of the first call, with autotuning and compilation in it."),
        ("context", "", "In use outside torch's allocator: context, libraries, other processes."),
    )
)


def with_first_peak(work: TorchWorkload, device: torch.device, peaks: dict[int, int]) -> Callable[[], Any]:
    """The workload's call; its first run notes the peak of device memory in `peaks`, then steps aside."""
    bare = work.call

    def first() -> Any:
        if work.batch in peaks:
            return bare()
        torch.cuda.reset_peak_memory_stats(device)
        output = bare()
        torch.cuda.synchronize(device)
        peaks[work.batch] = torch.cuda.max_memory_allocated(device)
        work.call = bare
        return output

    return first


def memory(
    work: TorchWorkload, device: torch.device, modules: list[torch.nn.Module], *, first_peak: int | None
) -> tuple[list[Series], dict[str, Any]]:
    """Bytes on the device: weights, activations, peak, reserved, first peak, context.

    Peak statistics are reset after a warm-up call; the cache is emptied first, so that `reserved` is what
    this batch size needs and not what larger ones left behind."""
    work.call()
    work.sync()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    output = work.call()
    work.sync()
    peak = torch.cuda.max_memory_allocated(device)
    reserved = torch.cuda.max_memory_reserved(device)
    free, total = torch.cuda.mem_get_info(device)
    storages = (t.untyped_storage() for t in find_held(modules) if t.device == device)
    held = {storage.data_ptr(): storage.nbytes() for storage in storages}
    values: list[tuple[Metric, int | None]] = [
        (PEAK, peak),
        (WEIGHTS, sum(held.values())),
        (ACTIVATIONS, peak - before),
        (RESERVED, reserved),
        (FIRST_PEAK, first_peak),
        (CONTEXT, total - free - torch.cuda.memory_reserved(device)),
    ]
    series = [
        Series(metric=metric, samples=[float(value)], probe="torch.cuda")
        for metric, value in values
        if value is not None
    ]
    details = {
        "inputs": tensors.size(work.inputs),
        "outputs": tensors.size(output),
        "before_call": before,
        "device_total": total,
        "device_free": free,
    }
    return series, details


def copies(work: TorchWorkload, device: torch.device, repeats: int) -> list[Series]:
    """Seconds of copying all inputs to the device and all outputs back, from pageable and pinned memory."""
    output = work.call()
    work.sync()
    series = []
    for way, on_device in (("h2d", work.inputs), ("d2h", output)):
        source = [t for t in tensors.tensors(on_device) if t.device == device and t.numel()]
        if not source:
            continue
        there = [torch.empty_like(t) for t in source] if way == "h2d" else source
        for kind in ("pageable", "pinned"):
            here = [torch.empty_like(t, device="cpu", pin_memory=kind == "pinned") for t in source]
            for host, tensor in zip(here, source, strict=True):
                host.copy_(tensor)
            pairs = list(zip(there, here, strict=True) if way == "h2d" else zip(here, there, strict=True))
            samples = [_time_copy(pairs, work.sync, kind == "pinned") for _ in range(repeats + 1)][1:]
            size = sum(t.numel() * t.element_size() for t in source)
            title, moved = {"h2d": ("host to device", "inputs"), "d2h": ("device to host", "outputs")}[way]
            series.append(
                Series(
                    metric=Metric(
                        tag=f"copy/{way}/{kind}",
                        unit="s",
                        title=f"copy {title}, {kind}",
                        better="lower",
                        meaning=f"One copy of the {moved} of a call, waited for.",
                        lies_when="copies overlap with compute in the real program",
                    ),
                    samples=samples,
                    probe="torch.cuda",
                    clock="perf_counter",
                    note=f"{size} bytes in {len(source)} tensors",
                )
            )
    return series


def _time_copy(pairs: list[tuple[Any, Any]], sync: Callable[[], None], is_pinned: bool) -> float:
    sync()
    began = time.perf_counter()
    for to, source in pairs:
        to.copy_(source, non_blocking=is_pinned)
    sync()
    return time.perf_counter() - began
