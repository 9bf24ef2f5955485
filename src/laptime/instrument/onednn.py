"""oneDNN's primitives of a step, from its own verbose output.

oneDNN prints a line for every primitive, through C's stdout. While a step is observed, file descriptor 1
leads into a temporary file; afterwards what is not oneDNN's is passed on to where it should have gone.

    onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv:avx512_core,forward_training,...,mb32_ic3oc64...,12.3
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from typing import IO, Any

_PREFIXES = (b"onednn_verbose,", b"dnnl_verbose,")


class Capture:
    """Collects the verbose lines between `start` and `stop`."""

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
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def primitives(lines: list[str]) -> list[dict[str, Any]]:
    """Calls and nanoseconds by kind, implementation and shapes, most time first.

    Lines that say nothing of an execution are left out. Fields are those of oneDNN 1.0 to 3.13:
    `exec,ENGINE,KIND,IMPLEMENTATION,...,SHAPES,MILLISECONDS`; since 3.0 `v1,primitive` comes before them.
    """
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
