"""Watches the process of a trial from inside: its memory, and processes that train in its place.

Memory of the trial: its peak, and a limit that it does not pass. No trial outlives its session.

Processes that the script starts by `multiprocessing`: the first one in which an optimizer steps says so.

Steps are timed in the script's own process. One that only starts others and waits for them would be waited
for until it ends: the session looks for the file instead, and says at once what cannot be timed.
Workers of loaders and pools train nothing, and are left alone."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.kit import system_files
from laptime.kit.system_files import children
from laptime.tuning.trial.loop import replace_attr

_PERIOD = 0.05  # seconds between two checks
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

    None if neither is known."""
    if "torch" in sys.modules and device.name == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    return system_files.size(Path("/proc/self/status"), "VmHWM")


def read_used(pid: int) -> int:
    """Resident bytes of a process, pages that it shares with others included. Takes microseconds."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    return 0


def share(pid: int) -> int:
    """Resident bytes of a process, shared pages divided among those that share them. Takes milliseconds."""
    own = system_files.size(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    return read_used(pid) if own is None else own


class Watchdog(threading.Thread):
    """Ends this process and its children when together they use more memory than the limit, or when the
    process that started it is gone: a session that was killed can end nothing any more.

    It looks twenty times a second: reads a line a process and sleeps. Shared pages count once; they are
    divided only when the sum with them is over the limit."""

    def __init__(self, limit: int | None, on_passed: Callable[[int], None]) -> None:
        """`limit` in bytes, None without; `on_passed` is called with the bytes used, right before the end."""
        super().__init__(name="laptime-memory", daemon=True)
        self._limit, self._on_passed = limit, on_passed
        self._parent, self._over = os.getppid(), threading.Event()

    def stop(self) -> None:
        """Stop checking. Safe to call twice."""
        self._over.set()

    def run(self) -> None:
        pid = os.getpid()
        while not self._over.wait(_PERIOD):
            if os.getppid() != self._parent and os.getpid() == pid:
                kill_children()
                os._exit(1)
            if self._limit is None:
                continue
            pids = [pid, *children(pid)]
            if sum(map(read_used, pids)) <= self._limit:
                continue
            total = sum(map(share, pids))
            if total > self._limit and not self._over.is_set():
                with suppress(Exception):  # the process must end, whatever cannot be written
                    self._on_passed(total)
                kill_children()
                os._exit(1)


def kill_children() -> None:
    """End every process below this one."""
    for pid in children(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


# Processes that the script starts.


FILE = "a-child-trains"  # in the folder of the trial
_OTHERS = ("torch.utils.data", "multiprocessing.", "concurrent.")


class StartedProcesses:
    """Watches `multiprocessing.Process.start` from `install` to `undo`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._back: Callable[[], None] = lambda: None
        self._import_hook = WhenImported("multiprocessing.process", self._replace)

    def install(self) -> None:
        """Begin, now or when the module is imported."""
        self._import_hook.install()

    def undo(self) -> None:
        """Give the function back. Safe to call twice."""
        self._import_hook.remove()
        self._back()

    def _replace(self) -> None:
        kind = sys.modules["multiprocessing.process"].BaseProcess
        original, folder = kind.start, self._folder

        def start(process: Any) -> Any:
            target = getattr(process, "_target", None)
            if target is not None and not str(getattr(target, "__module__", "")).startswith(_OTHERS):
                process._target = partial(run_watched, target, folder)
            return original(process)

        self._back = replace_attr(kind, "start", start)


def run_watched(target: Callable[..., Any], folder: str, *arguments: Any, **named: Any) -> Any:
    """The function of such a process; it has to pickle, for interpreters that are started anew."""

    def watch_optimizers() -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def first(*_: Any) -> None:
            handle.remove()
            with suppress(OSError):
                os.close(os.open(Path(folder) / FILE, os.O_WRONLY | os.O_CREAT, 0o644))

        handle = register_optimizer_step_post_hook(first)

    WhenImported("torch", watch_optimizers).install()
    return target(*arguments, **named)
