"""When a request is due: a timer of the kernel, since those of event loops are a millisecond coarse."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable

_MONOTONIC, _ABSOLUTE, _NONBLOCKING = 1, 1, os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_NOW = 1e-9


class Timer:
    """Calls a function at a time of the monotonic clock; one time is waited for at once.

    Linux's timerfd wakes within about 0.1 ms. Elsewhere the loop's timer does, within 1 to 2 ms.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop, self._wake = loop, wake
        self._file = _timerfd()
        self._handle: asyncio.TimerHandle | None = None
        if self._file is not None:
            loop.add_reader(self._file, self._expired)

    def at(self, when: float) -> None:
        """Wake at this time on `time.perf_counter`; at once where it has passed."""
        if self._file is None:
            self._handle = self._loop.call_later(max(0.0, when - _clock()), self._wake)
            return
        whole = int(when)
        spec = struct.pack("qqqq", 0, 0, whole, max(1, int((when - whole) / _NOW)))
        _libc().timerfd_settime(self._file, _ABSOLUTE, spec, None)

    def _expired(self) -> None:
        assert self._file is not None
        os.read(self._file, 8)
        self._wake()

    def close(self) -> None:
        """Give the timer back."""
        if self._handle is not None:
            self._handle.cancel()
        if self._file is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = None


def _clock() -> float:
    from laptime.kit.clock import SystemClock

    return SystemClock.now()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _timerfd() -> int | None:
    """A timer on the clock of `time.perf_counter`, which is CLOCK_MONOTONIC on Linux alone."""
    if sys.platform != "linux":
        return None
    descriptor = _libc().timerfd_create(_MONOTONIC, _NONBLOCKING)
    return descriptor if descriptor >= 0 else None
