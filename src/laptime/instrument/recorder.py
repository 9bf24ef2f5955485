"""Recordings of a running loop: torch.profiler over traced steps, oneDNN's primitives of one more."""

import os
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from laptime.instrument.messages import Settings, rank


def worker_name() -> str:
    """`rank0.HOST_PID`: how the files of this process begin, so that ranks can be told apart."""
    return f"rank{rank()}.{socket.gethostname()}_{os.getpid()}"


def file_name(worker: str = "") -> str:
    """A name that no other trace has: `rank0.HOST_PID.TIME.pt.trace.json.gz`."""
    return f"{worker or worker_name()}.{time.time_ns()}.pt.trace.json.gz"


class Recorder:
    """Warm-up and traced steps, cycle by cycle; every cycle is one file. files: names of the traces that were
    written. active: steps in the trace that is being recorded now."""

    def __init__(self, settings: Settings, *, warmup: int, steps: int) -> None:
        self._settings = settings
        self._warmup, self._steps = warmup, steps
        self._profiler: Any = None
        self._number = 0
        self.files: list[str] = []

    @property
    def is_active(self) -> bool:
        return self._profiler is not None and self._position >= self._warmup

    @property
    def active(self) -> int:
        """Complete steps of the cycle that are in its trace by now."""
        return max(0, self._position - self._warmup)

    @property
    def _position(self) -> int:
        return self._number % (self._warmup + self._steps)

    def start(self) -> None:
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
        use_gzip: False writes plain JSON."""

    def handle(profiler: Any) -> None:
        os.makedirs(dir_name, exist_ok=True)  # noqa: PTH103
        name = file_name(worker_name)
        path = os.path.join(dir_name, name if use_gzip else name.removesuffix(".gz"))  # noqa: PTH118
        profiler.export_chrome_trace(path)

    return handle


# oneDNN's primitives of a step, a line each, printed through C's stdout:
#
#     onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv:avx512_core,...,mb32_ic3oc64...,12.3


_PREFIXES = (b"onednn_verbose,", b"dnnl_verbose,")


class Capture:
    """Collects the verbose lines between `start` and `stop`.

    File descriptor 1 leads into a temporary file; what is not oneDNN's goes on to where it should have gone.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._stdout = -1

    def start(self) -> bool:
        """Begin; whether this torch has oneDNN and a standard output to catch its lines from."""
        import torch

        backends: Any = torch.backends  # parts of it have no types
        if not backends.mkldnn.is_available():
            return False
        _flush()
        try:
            self._stdout = os.dup(1)
        except OSError:
            return False
        self._file = tempfile.TemporaryFile(prefix="laptime-onednn-")  # noqa: SIM115, closed in stop()
        os.dup2(self._file.fileno(), 1)
        torch._C._verbose.mkldnn_set_verbose(1)  # type: ignore[attr-defined, unused-ignore]
        return True

    def stop(self) -> list[dict[str, Any]]:
        """End, pass on what others wrote, and add up oneDNN's lines. [] when it never began."""
        if self._file is None:
            return []
        import torch

        torch._C._verbose.mkldnn_set_verbose(0)  # type: ignore[attr-defined, unused-ignore]
        _flush()
        os.dup2(self._stdout, 1)
        os.close(self._stdout)
        self._file.seek(0)
        text = self._file.read()
        self._file.close()
        self._file = None
        lines = text.splitlines(keepends=True)
        verbose_lines = [line for line in lines if line.startswith(_PREFIXES)]
        others = b"".join(line for line in lines if not line.startswith(_PREFIXES))
        while others:
            others = others[os.write(1, others) :]
        return primitives([line.decode(errors="replace").strip() for line in verbose_lines])


def _flush() -> None:
    """Write out what Python and C hold back for standard output."""
    import ctypes

    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def primitives(lines: list[str]) -> list[dict[str, Any]]:
    """Calls and nanoseconds by kind, implementation and shapes, most time first.

    Lines that say nothing of an execution are left out. Fields are those of oneDNN 1.0 to 3.13:
    `exec,ENGINE,KIND,IMPLEMENTATION,...,SHAPES,MILLISECONDS`; since 3.0 `v1,primitive` comes before them."""
    totals: dict[tuple[str, str, str], list[int]] = {}
    for line in lines:
        words = line.split(",")[1:]
        if words[:2] == ["v1", "primitive"]:
            words = words[2:]
        if words[:1] != ["exec"] or len(words) < 6:
            continue
        try:
            nanoseconds = round(float(words[-1]) * 1e6)
        except ValueError:
            continue
        entry = totals.setdefault((words[2], words[3], words[-2]), [0, 0])
        entry[0] += 1
        entry[1] += nanoseconds
    ordered = sorted(totals.items(), key=lambda each: -each[1][1])
    return [
        {"kind": kind, "implementation": implementation, "shapes": shapes, "calls": calls, "total_ns": total}
        for (kind, implementation, shapes), (calls, total) in ordered
    ]
