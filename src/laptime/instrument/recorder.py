"""torch.profiler over the traced steps of a running loop."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from laptime.instrument.settings import Settings, rank


def worker_name() -> str:
    """`rank0.HOST_PID`: how the files of this process begin, so that ranks can be told apart."""
    return f"rank{rank()}.{socket.gethostname()}_{os.getpid()}"


def file_name(worker: str = "") -> str:
    """A name that no other trace has: `rank0.HOST_PID.TIME.pt.trace.json.gz`."""
    return f"{worker or worker_name()}.{time.time_ns()}.pt.trace.json.gz"


class Recorder:
    """Warm-up and traced steps, cycle by cycle; every cycle is one file.

    Attributes:
        files: names of the traces that were written.
        active: steps in the trace that is being recorded now.
    """

    def __init__(self, settings: Settings, *, warmup: int, steps: int) -> None:
        self._settings = settings
        self._warmup, self._steps = warmup, steps
        self._profiler: Any = None
        self._number = 0
        self.files: list[str] = []

    @property
    def is_active(self) -> bool:
        """Whether the step that runs now is recorded."""
        return self._profiler is not None and self._position >= self._warmup

    @property
    def active(self) -> int:
        """Complete steps of the cycle that are in its trace by now."""
        return max(0, self._position - self._warmup)

    @property
    def _position(self) -> int:
        return self._number % (self._warmup + self._steps)

    def start(self) -> None:
        """Begin with the first warm-up step."""
        from torch import profiler

        settings = self._settings
        with _quiet():
            self._profiler = profiler.profile(
                activities=_activities(),
                schedule=profiler.schedule(
                    wait=0, warmup=self._warmup, active=self._steps, repeat=settings.repeat
                ),
                on_trace_ready=self._export,
                record_shapes=settings.shapes,
                profile_memory=settings.memory,
                with_stack=settings.stack,  # brings the events of modules, too
            )
            self._profiler.start()

    def step(self) -> bool:
        """A step has ended; whether all cycles are recorded."""
        self._number += 1
        with _quiet():
            self._profiler.step()
        if self._number < (self._warmup + self._steps) * self._settings.repeat:
            return False
        self.stop()
        return True

    def end(self) -> bool:
        """A step has ended and the window with it; whether any step of this cycle was recorded."""
        was_active = self.is_active
        self._stop(keep=was_active)
        return was_active

    def stop(self) -> None:
        """End now, in the middle of a step. The steps recorded so far are written, if there are any."""
        self._stop(keep=self.active > 0)

    def _stop(self, *, keep: bool) -> None:
        if self._profiler is not None:
            profiler, self._profiler = self._profiler, None
            if not keep:
                profiler.on_trace_ready = None
            with _quiet():
                profiler.stop()

    def _export(self, profiler: Any) -> None:
        name = file_name()
        profiler.export_chrome_trace(os.path.join(self._settings.folder, name))  # noqa: PTH118, no pathlib in hooks
        self.files.append(name)


def _activities() -> list[Any]:
    """The host, and the accelerators that are there: asking for others makes kineto complain."""
    import torch

    profiler: Any = torch.profiler  # parts of it have no types

    has_accelerator = torch.cuda.is_available() or any(
        (module := getattr(torch, kind, None)) is not None and module.is_available()
        for kind in ("xpu", "mtia", "mps")
    )
    return list(profiler.supported_activities() if has_accelerator else [profiler.ProfilerActivity.CPU])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch warns its caller of: the caller is us, and the script's stderr is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str = "", use_gzip: bool = True
) -> Callable[[Any], None]:
    """For `on_trace_ready=` of torch.profiler, in place of `tensorboard_trace_handler`.

    Every trace becomes `WORKER.TIME.pt.trace.json.gz` in the folder, which `laptime trace FOLDER` reads, one
    rank or many.

    Args:
        dir_name: the folder; made when missing.
        worker_name: "" takes `rank0.HOST_PID`, with this process's rank.
        use_gzip: False writes plain JSON.
    """

    def handle(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)  # noqa: PTH103
        name = file_name(worker_name)
        path = os.path.join(dir_name, name if use_gzip else name.removesuffix(".gz"))  # noqa: PTH118
        profiler.export_chrome_trace(path)

    return handle
