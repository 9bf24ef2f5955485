"""Exact peak of host memory, what may still be allocated, and a limit that fails cleanly.

Linux keeps the highest resident set of a process (VmHWM) and lets it be reset by writing "5" to
/proc/self/clear_refs: no polling, so no peak is missed, however short."""

import ctypes
import gc
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from laptime.kit import system_files
from laptime.kit.clock import Clock
from laptime.kit.units import show
from laptime.probes import EndWatch, TimedBlock
from laptime.records.details import HostMemory
from laptime.records.series import Series, read_metrics

METRICS = PEAK, INCREASE, OVER_TIME = read_metrics("""
memory/host/peak B lower host memory, peak
    Highest resident set of the process during one call, model and libraries included.
    Lies when: Memory is shared with other processes, swapped out, or child processes live for less than 5
    ms. The kernel counts pages by CPU in batches: below 1 MiB it is not exact.
memory/host/increase B lower host memory, added by a call
    Peak of the resident set minus the resident set before the call.
    Lies when: An allocator kept memory of earlier calls for itself: it is reused without being seen.
    Freed memory is given back to the system first, which glibc can do and other allocators may not.
evidence/process/memory B none memory of the process over time
    Resident set of the process, children of a benchmark included, at moments between calls.
    Lies when: Processes share pages: they count once for each. What comes and goes between two looks is
    missed; the peak is another metric.
""")
_ROOM_TO_FAIL = 32 * 2**20
"""Bytes above the present use that a limit always leaves, so that Python can still raise and report."""


def watch(device: str, clock: Clock) -> EndWatch:
    """The memory of this process and its children at the end of each block, while nothing is timed."""

    def end(block: TimedBlock) -> list[Series]:
        memory = resident()
        if memory is None:
            return []
        at = [round(clock.now(), 6)]
        return [Series(metric=OVER_TIME, samples=[float(memory)], at=at, probe="host_memory")]

    return EndWatch(end)


def resident(root: str = "/") -> int | None:
    """Bytes that this process and its children have in memory now, in about 50 us and 50 for each child;
    None if /proc does not say."""
    own = system_files.size(Path(root) / "proc/self/status", "VmRSS")
    statuses = (Path(root) / f"proc/{pid}/status" for pid in system_files.children(root=root))
    return None if own is None else own + sum(system_files.size(each, "VmRSS") or 0 for each in statuses)


def peak_of(call: Callable[[], Any], root: str = "/") -> HostMemory:
    """Run `call` once; how much host memory it took, in bytes. What the call raises passes through.

    `peak` is the highest resident set while it ran, `increase` that less the one before. Where the system
    tells only that of the process's whole life, it is an upper bound and not `exact`. `virtual`: the highest
    address space so far.

    Memory that was freed earlier is given back to the system first (garbage collection, malloc_trim): it
    would hide new allocations that fit into it."""
    gc.collect()
    # Give freed memory back to the system, if the C library knows how (glibc).
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # musl has no malloc_trim
            ctypes.CDLL(None).malloc_trim(0)
    process = Path(root) / "proc/self"
    is_reset = False
    with suppress(OSError):
        (process / "clear_refs").write_text("5")
        is_reset = True
    for pid in system_files.children(root=root):
        with suppress(OSError):  # it has ended, or is another user's: its peak is that of its life
            (Path(root) / f"proc/{pid}/clear_refs").write_text("5")
    before = _of_children(process, Path(root))
    baseline = (system_files.size(process / "status", "VmRSS") or _rss()) + before
    others = _most_of_children(process, Path(root), call)
    virtual = system_files.size(process / "status", "VmPeak")
    highest = system_files.size(process / "status", "VmHWM") if is_reset else None
    if highest is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = max(peak if sys.platform == "darwin" else peak * 1024, baseline)
        note = "highest resident set of the process so far, not of this call: it cannot be reset here"
    else:
        peak = max(max(highest, baseline - before) + others, baseline)
        note = "VmHWM of /proc/self/status, reset before the call"
        if others:
            note = f"{show(others, 'B')} of it in child processes, each at its own peak"
    told = {"baseline": baseline, "increase": peak - baseline, "virtual": virtual}
    return HostMemory(peak=peak, exact=highest is not None and not others, note=note, **told)


def page_faults_of(call: Callable[[], Any]) -> int:
    """Minor page faults of the process, all threads, during one call (getrusage)."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def available_bytes(root: str = "/") -> int:
    """Bytes that can be allocated now without swapping and without waking the OOM killer.

    The smaller of the machine's MemAvailable and the room left under the container's limit."""
    machine = system_files.size(Path(root) / "proc/meminfo", "MemAvailable")
    if machine is None:
        import psutil

        machine = int(psutil.virtual_memory().available)
    headroom = system_files.memory_headroom(root)
    return machine if headroom is None else min(machine, headroom)


def limit_private_memory(limit: int, root: str = "/") -> bool:
    """Let this process map at most `limit` bytes of private writable memory in all (RLIMIT_DATA); whether the
    system enforces it (Linux does).

    A larger allocation then fails with MemoryError (torch: RuntimeError) at once, if the kernel would have
    granted it and killed a process when it was used. Should the kernel still run out, this process is the one
    it kills (oom_score_adj 1000). Never below what is mapped already plus 32 MiB. Not for processes that use
    CUDA, whose driver maps far more than it uses."""
    process = Path(root) / "proc/self"
    with suppress(OSError):  # a container may forbid it; the limit below is what matters
        (process / "oom_score_adj").write_text("1000")
    if sys.platform != "linux":
        return False
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = max(int(limit), (system_files.size(process / "status", "VmData") or 0) + _ROOM_TO_FAIL)
    if hard != resource.RLIM_INFINITY:
        allowed = min(allowed, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
    return True


LOOK = 0.005  # seconds between two looks at the children of a call, some of which end within it


def _most_of_children(process: Path, root: Path, call: Callable[[], Any]) -> int:
    """Run `call`; the bytes that its descendants had meanwhile, those that lived for a look or longer."""
    found, is_done = [0], threading.Event()

    def look() -> None:
        while not is_done.wait(LOOK):
            found.append(_of_children(process, root))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        call()
    finally:
        is_done.set()
        looking.join()
    return max(*found, _of_children(process, root))


def _of_children(process: Path, root: Path) -> int:
    """Bytes that the descendants of a process have had at most, those alive now; 0 if nothing tells."""
    total, own = 0, system_files.size(process / "status", "VmHWM")
    with suppress(OSError):  # it has ended, or the kernel keeps no such list
        for thread in (process / "task").iterdir():
            for child in (thread / "children").read_text().split():
                found = root / "proc" / child
                size = system_files.size(found / "status", "VmHWM") or 0
                # What has just been forked shows the memory of its parent, until it is another program.
                total += (0 if size == own else size) + _of_children(found, root)
    return total


def _rss() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
