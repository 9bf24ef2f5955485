"""Records some calls of one folder; imports no laptime.

    python -I process.py FOLDER CALLS.npz tensors|arrays RUNTIME PLACE SECONDS

RUNTIME is a file of `in_process/`, PLACE the file that it writes, SECONDS how long calls may be recorded for.
The answer is one message in JSON: see `main`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
WARM_UP, BLOCKS, MOST_IN_BLOCK, MOST = 3, 5, 10, 10
"""Calls before any other; blocks of calls whose CPU time is taken; calls in a block and recorded at most."""


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def busy(call: Callable[[], Any], calls: int) -> float:
    """Cores that work in a call on average: CPU seconds of this process over wall seconds.

    The largest of some blocks: another program that takes a core away makes it smaller, none larger.
    """
    shares = []
    for _ in range(BLOCKS):
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(calls):
            call()
        shares.append((time.process_time() - cpu) / (time.perf_counter() - began))
    return max(shares)


def main() -> None:
    """Load the folder, call it, record some calls; tell calls, seconds, threads, busy and recorder."""
    arm = _module(HERE.parent / "arm_process.py")
    parent = arm.channel_to_parent()
    folder, recorded, kind, runtime, place, seconds = sys.argv[1:]
    recorder = arm.module_in(HERE / "in_process" / f"{runtime}.py").Recorder(Path(place))
    model = arm.loaded(Path(folder))
    inputs = arm.inputs_in(Path(recorded), as_arrays=kind == "arrays")[0]
    for _ in range(WARM_UP - 1):
        model(*inputs)
    began = time.perf_counter()
    model(*inputs)
    call = max(time.perf_counter() - began, 1e-6)
    each = float(seconds) / 2 / call
    working = busy(lambda: model(*inputs), max(1, min(MOST_IN_BLOCK, int(each / BLOCKS))))
    calls = max(1, min(MOST, int(each)))
    about = {"calls": calls, "busy": working, **recorder.record(model, inputs, calls)}
    parent.send(json.dumps(about).encode())


if __name__ == "__main__":
    main()
