"""Steps of a training script timed in a process of its own that need not import torch anew.

The parent has imported torch and made no tensor, so no thread pool runs; every child is a fork of it, runs
the script as `__main__`, and is ended, with its loader workers, when enough optimizer steps were timed.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn


class Timed(NamedTuple):
    """Of one step, mean: wall seconds, and CPU seconds of the process (not of its loader workers)."""

    wall: float
    cpu: float


def timed(script: Path, *, settle: int, steps: int, folder: Path) -> Timed:
    """Run the script in `folder` until so many steps have settled and so many were timed.

    Raises:
        RuntimeError: it ended before that.
    """
    import torch  # noqa: F401, children find it imported
    from torch.optim import optimizer  # noqa: F401

    folder.mkdir(exist_ok=True)
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        _child(script, settle, steps, folder, send)
    os.close(send)
    with os.fdopen(receive) as told:
        text = told.readline()  # loader workers hold the pipe, too: its end may come late
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not text:
        raise RuntimeError(f"{script} ended early: {(folder / 'output').read_text()[-2000:]}")
    return Timed(*json.loads(text))


def _child(script: Path, settle: int, steps: int, folder: Path, send: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        sys.argv = [str(script)]
        _watch(settle, steps, send)
        runpy.run_path(str(script), run_name="__main__")
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(1)


def _watch(settle: int, steps: int, send: int) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    begun: list[float] = []
    count = 0

    def stepped(*ignored: Any) -> None:
        nonlocal count
        count += 1
        if count == settle:
            begun[:] = [time.perf_counter(), time.process_time()]
        elif count == settle + steps:
            ended = time.perf_counter(), time.process_time()
            found = [(after - before) / steps for before, after in zip(begun, ended, strict=True)]
            os.write(send, f"{json.dumps(found)}\n".encode())
            os._exit(0)

    register_optimizer_step_post_hook(stepped)
