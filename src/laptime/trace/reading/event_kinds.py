"""What kind of range a category names, in all formats and on all accelerators."""

from __future__ import annotations

from laptime.trace.columns import DeviceKind, HostKind

APIS = ("mtia", "xpu")
"""Accelerators whose categories name them, as `mtia_runtime` does."""

STREAM_WAIT = "event_wait"
"""What MTIA writes on a stream that waits for an event of another: no work."""

DEVICE, RANGE, SKIP = 10, 20, 99
"""Groups of ranges: below DEVICE a HostKind, from there to RANGE a DeviceKind; RANGE is on a stream."""

_DEVICE_WORK = {
    "kernel": DeviceKind.KERNEL,
    "concurrent_kernel": DeviceKind.KERNEL,
    "mtia_ccp_events": DeviceKind.KERNEL,
    "memcpy": DeviceKind.MEMCPY,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "memset": DeviceKind.MEMSET,
    "gpu_memset": DeviceKind.MEMSET,
}
_HOST = {
    "operator": HostKind.OPERATOR,
    "cpu_op": HostKind.OPERATOR,
    "user_annotation": HostKind.ANNOTATION,
    "runtime": HostKind.RUNTIME,
    "python": HostKind.PYTHON,
    "python_function": HostKind.PYTHON,
    "overhead": HostKind.OVERHEAD,
}


def group(category: str) -> int:
    """What kind of range a category names."""
    category = category.lower()
    if category in _DEVICE_WORK:
        return DEVICE + _DEVICE_WORK[category]
    if category in _HOST:
        return _HOST[category]
    if category.endswith("_runtime"):
        return HostKind.RUNTIME
    if category.endswith("_driver"):
        return HostKind.DRIVER
    if category in ("gpu_user_annotation", "mtia_user_annotation", "xpu_user_annotation"):
        return RANGE
    if category in ("trace", "cuda_sync", "cuda_profiler_range"):
        return SKIP
    return HostKind.OTHER
