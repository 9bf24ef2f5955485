"""The C library keeps freed memory: the next step's activations get pages that are mapped already.

By default glibc takes large blocks from the kernel by mmap and gives them back when they are freed. A
training step frees everything it has allocated, so each step faults all its pages in again, and the kernel
fills them with zeros.

Measured by benchmarks/allocator.py. Memory that the heap has once taken stays with the process: its peak
grows by what is lost between blocks.

Source: mallopt(3): M_MMAP_MAX=0 takes everything from the heap, M_TRIM_THRESHOLD=-1 never gives it back.
Lies when: another allocator (jemalloc, tcmalloc) is preloaded; then nothing changes."""

import os
from typing import Any

from laptime.tuning.catalogue import _bounds
from laptime.tuning.optimization import LoopProfile, Optimization, Options

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # malloc.h
KEPT = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: -1}
ADAPTED = {M_MMAP_MAX: 65536, M_MMAP_THRESHOLD: 32 << 20, M_TRIM_THRESHOLD: 64 << 20}
"""Where glibc's own adapting ends in a loop that frees blocks of many sizes (malloc.c,
DEFAULT_MMAP_THRESHOLD_MAX and twice that): mallopt switches the adapting off, so this stands in for it."""


def why_not(loop_profile: LoopProfile) -> str:
    if not _is_glibc():
        return "the C library is not glibc, or another allocator is preloaded"
    # Whoever has set these has looked into it.
    is_set = any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_"))
    is_set = is_set or "glibc.malloc.mmap" in os.environ.get("GLIBC_TUNABLES", "")
    return "the environment sets malloc's thresholds already" if is_set else ""


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Return the cost of a step's page faults, if counted; at most a third of computing: a ResNet-18's
    step went from 3.4 s to 2.7 s without them."""
    return min(loop_profile.share("forward", "backward", "optimizer") / 3, _bounds.page_faults(loop_profile))


def apply(loop: Any, options: Options) -> None:
    """mallopt in this process. Back is what a process comes to that has run for some steps without it."""

    def switch() -> Any:
        import ctypes

        library = ctypes.CDLL(None)
        if not hasattr(library, "mallopt"):
            loop.refuse("the C library has no mallopt")
        _set(loop, library, KEPT)

        def back() -> None:
            _set(loop, library, ADAPTED)
            library.malloc_trim(0)

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    lines = (
        "libc = ctypes.CDLL(None)",
        f"libc.mallopt({M_MMAP_MAX}, 0)  # M_MMAP_MAX: take nothing by mmap",
        f"libc.mallopt({M_TRIM_THRESHOLD}, -1)  # M_TRIM_THRESHOLD: keep what is freed",
    )
    script.at_start("\n".join(lines), "import ctypes")


def _set(loop: Any, library: Any, values: dict[int, int]) -> None:
    for name, value in values.items():
        if library.mallopt(name, value) != 1:
            loop.refuse(f"mallopt({name}, {value}) was refused")


def _is_glibc() -> bool:
    if any(name in os.environ.get("LD_PRELOAD", "") for name in ("jemalloc", "tcmalloc", "mimalloc")):
        return False
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, AttributeError, OSError):
        return False


OPTIMIZATION = Optimization(
    title="freed memory is kept for the next step",
    numerics="exact",
    saves=bound,
    live=True,
    needs=frozenset({"cpu"}),
    why_not=why_not,
    apply=apply,
    edit=edit,
)
