"""What torch.profiler recorded: rows by operator and shapes, counted as those of any trace are.

A compiled model is kernels that torch.profiler does not see, and a few operators that it calls: the rest of
a call is `fused kernels` then, without FLOP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from laptime.records.roofline import Work
from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import work

FUSED = "fused kernels"
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")
"""How names begin of ranges that a graph of torch.compile runs in."""


def rows(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls.

    Args:
        place: the trace. about: see `recording.process`. is_compiled: the folder has a compiled package.
    """
    view = profile.view(reader.read(place, processes=1))
    made = work.works(view)
    if is_compiled or any(text.startswith(_COMPILED) for text in view.trace.texts):
        made += _rest(made, float(about["seconds"]) * int(about["calls"]), int(about["calls"]))
    return made


def _rest(made: Iterable[Work], seconds: float, calls: int) -> list[Work]:
    rest = round(seconds * 1e9) - sum(row.total_ns for row in made)
    if rest <= 0:
        return []
    row = Work(id=FUSED, kind="fused", name=FUSED, calls=calls, total_ns=rest, uncounted_ns=rest)
    return [row]
