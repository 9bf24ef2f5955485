"""The smallest machine of a flexible shape that holds a program: its busy cores and its memory."""

from __future__ import annotations

import math

from laptime.records.cost import FlexShape, Machine

_MARGIN, _SYSTEM = 1.2, 2.0**30
"""Over the measured peak, and bytes for the system itself."""


def memory_needed(peak: float | None) -> float:
    """Bytes of a machine that runs a program with this peak."""
    return _SYSTEM + _MARGIN * (peak or 0.0)


def sized_down(shape: FlexShape, cores: float, peak: float | None) -> Machine | None:
    """The smallest machine with so many cores, and room for a peak in bytes; None where none is so large."""
    ocpus = float(max(1, math.ceil(cores / shape.cores_per_ocpu)))
    needed = float(math.ceil(memory_needed(peak) / 2**30))
    memory = max(needed, ocpus * shape.min_gb)
    while ocpus <= shape.max_ocpus and shape.why_not(ocpus, memory):
        ocpus += 1  # more memory than so few OCPUs may have
        memory = max(needed, ocpus * shape.min_gb)
    return shape.sized(ocpus, memory) if ocpus <= shape.max_ocpus else None
