"""What the process of a trial is watched for, from inside: its memory, and processes that train in its place.

Memory of the trial: its peak, and a limit that it does not pass. No trial outlives its session.

Processes that the script starts by `multiprocessing`: the first one in which an optimizer steps says so.

Steps are timed in the script's own process. One that only starts others and waits for them would be waited
for until it ends: the session looks for the file instead, and says at once what cannot be timed.
Workers of loaders and pools train nothing, and are left alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.kit import system_files
from laptime.kit.system_files import children

_PERIOD = 0.05
"""Seconds between two checks."""
_PAGE = os.sysconf("SC_PAGESIZE") if hasattr(os, "sysconf") else 4096


def reset_peak(device: Any) -> None:
    """Begin a new peak. Best effort: without the right to, the old one stays."""
    if device.name == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak(device: Any) -> int | None:
    """Peak bytes since `reset_peak`: of a CUDA device's allocator, else resident ones of this process
    (VmHWM).

    None where neither is known.
    """
    if "torch" in sys.modules and device.name == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    return system_files.size(Path("/proc/self/status"), "VmHWM")


def used(pids: list[int]) -> int:
    """Resident bytes, pages that forked processes share counted with each of them. Microseconds a process."""
    return sum(_resident(pid) for pid in pids)


def _resident(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return 0


def shares(pids: list[int]) -> int:
    """Resident bytes, shared pages divided among those that share them (Pss). Milliseconds a process."""
    return sum(_share(pid) for pid in pids)


def _share(pid: int) -> int:
    share = system_files.size(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    return _resident(pid) if share is None else share


class Watchdog:
    """Ends this process and its children when together they use more memory than the limit, or when the
    process that started it is gone: a session that was killed can end nothing any more.

    A thread of its own checks twenty times a second: it reads a line a process and sleeps. Shared pages count
    once; they are divided only when the sum with them is over the limit.
    """

    def __init__(self, limit: int | None, on_passed: Callable[[int], None]) -> None:
        """`limit` in bytes, None without; `on_passed` is called with the bytes used, right before the end."""
        self._limit = limit
        self._parent = os.getppid()
        self._on_passed = on_passed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="laptime-memory", daemon=True)

    def start(self) -> None:
        """Begin to check."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking. Safe to call twice."""
        self._over.set()

    def _watch(self) -> None:
        pid = os.getpid()
        while not self._over.wait(_PERIOD):
            if os.getppid() != self._parent and os.getpid() == pid:
                kill_children()
                os._exit(1)
            if self._limit is None:
                continue
            pids = [pid, *children(pid)]
            if used(pids) <= self._limit:
                continue
            shared = shares(pids)
            if shared > self._limit and not self._over.is_set():
                with suppress(Exception):  # the process must end, whatever cannot be written
                    self._on_passed(shared)
                kill_children()
                os._exit(1)


def kill_children() -> None:
    """End every process below this one."""
    for pid in children(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


# Processes that the script starts.


FILE = "a-child-trains"
"""In the folder of the trial."""
_OTHERS = ("torch.utils.data", "multiprocessing.", "concurrent.")


class StartedProcesses:
    """Watches `multiprocessing.Process.start` from `install` to `undo`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._original: Any = None
        self._import_hook = WhenImported("multiprocessing.process", self._replace)

    def install(self) -> None:
        """Begin, now or when the module is imported."""
        self._import_hook.install()

    def undo(self) -> None:
        """Give the function back. Safe to call twice."""
        self._import_hook.remove()
        if self._original is not None:
            _class().start = self._original
            self._original = None

    def _replace(self) -> None:
        original = self._original = _class().start
        folder = self._folder

        def start(process: Any) -> Any:
            target = getattr(process, "_target", None)
            if target is not None and not str(getattr(target, "__module__", "")).startswith(_OTHERS):
                process._target = Watched(target, folder)
            return original(process)

        _class().start = start


def _class() -> Any:
    return sys.modules["multiprocessing.process"].BaseProcess


class Watched:
    """The function of such a process; it has to pickle, for interpreters that are started anew."""

    def __init__(self, target: Callable[..., Any], folder: str) -> None:
        self._target, self._folder = target, folder

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        WhenImported("torch", self._watch_optimizers).install()
        return self._target(*arguments, **named)

    def _watch_optimizers(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def first(*_: Any) -> None:
            handle.remove()
            with suppress(OSError):
                os.close(os.open(Path(self._folder) / FILE, os.O_WRONLY | os.O_CREAT, 0o644))

        handle = register_optimizer_step_post_hook(first)
