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

_PREFIXES = ("onednn_verbose,", "dnnl_verbose,")
_USUAL = (
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,"
    "problem_desc,exec_time"
)


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
        own = [line for line in lines if line.startswith(tuple(p.encode() for p in _PREFIXES))]
        others = b"".join(line for line in lines if line not in own) if own else text
        while others:
            others = others[os.write(1, others) :]
        return primitives([line.decode(errors="replace").strip() for line in own])


def _flush() -> None:
    """Write out what Python and C hold back for standard output."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def primitives(lines: list[str]) -> list[dict[str, Any]]:
    """Calls and nanoseconds by kind, implementation and shapes, most time first.

    Lines that say nothing of an execution, or are no verbose lines at all, are left out.
    """
    names = _USUAL.split(",")
    found: dict[tuple[str, str, str], list[int]] = {}
    for line in lines:
        words = line.split(",")
        words = words[3:] if len(words) > 2 and words[2] == "primitive" else words[1:]
        if "template:operation" in line:
            names = line.partition("template:")[2].split(",")
        elif words[:1] == ["exec"] and len(words) >= len(names):
            _add(found, dict(zip(names, words, strict=False)))
    rows = [
        {"kind": kind, "implementation": implementation, "shapes": shapes, "calls": calls, "total_ns": total}
        for (kind, implementation, shapes), (calls, total) in found.items()
    ]
    return sorted(rows, key=lambda row: -int(str(row["total_ns"])))


def _add(found: dict[tuple[str, str, str], list[int]], told: dict[str, str]) -> None:
    try:
        nanoseconds = round(float(told.get("exec_time", "").partition(" ")[0]) * 1e6)
    except ValueError:
        return
    key = (told.get("primitive", ""), told.get("implementation", ""), told.get("problem_desc", ""))
    entry = found.setdefault(key, [0, 0])
    entry[0] += 1
    entry[1] += nanoseconds
