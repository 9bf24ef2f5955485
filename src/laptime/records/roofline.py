"""What operators compute and move, beside what the device can: the roofline of a profile.

FLOP and bytes are those that the shapes of the inputs tell; the rest is time whose work nobody counted.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

OperatorClass = Literal[
    "matmul",
    "convolution",
    "convolution backward",
    "attention",
    "recurrent",
    "normalisation",
    "elementwise",
    "reduction",
    "embedding",
    "copy",
    "transfer",
    "communication",
    "other",
    "fused",
]
"""Transfers are copies between host and device; `other` has operators that no class names, `fused` kernels
of several operators whose own parts are not seen."""


class Work(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls of one operator with the same shapes, or of one class of operators.

    Attributes:
        id: the operator and its shapes, or the class.
        kind: class. name, shapes: of one operator; "" for a whole class.
        calls: that were counted, or could not be.
        total_ns: of the device, all that these calls launched; on a CPU their own time.
        uncounted_ns: that part of `total_ns` whose work the shapes do not tell.
        uncounted: operators it belongs to, those of most time.
        flop: floating point operations of the counted calls, by dtype. tf32 is float32 on tensor cores.
        bytes: that they must move at least: inputs once, outputs once. None where nothing is counted.
        flops, bandwidth: FLOP and bytes per second of the counted calls.
        intensity: FLOP per byte.
        bound: the ceiling that is nearer; "" where the ceilings are not known.
        share: of that ceiling, 0 to 1; None where it is not known, or would mislead: `note` says why.
    """

    id: str
    kind: OperatorClass
    name: str = ""
    shapes: str = ""
    calls: int
    total_ns: int
    uncounted_ns: int = 0
    uncounted: list[str] = []
    flop: dict[str, float] = {}
    bytes: float | None = None
    flops: float | None = None
    bandwidth: float | None = None
    intensity: float | None = None
    bound: Literal["compute", "memory", ""] = ""
    share: float | None = None
    note: str = ""


class Ceilings(Struct, frozen=True, kw_only=True):
    """What the device can do at most.

    Attributes:
        flops: per second, by dtype. bandwidth: bytes per second between the device and its memory.
        source: where the figures come from, in words.
    """

    device: str
    flops: dict[str, float]
    bandwidth: float | None
    source: str


class Roofline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work by class and by operator and shape, most time first.

    Attributes:
        classes: their times sum to all device time; on a CPU to all time of operators.
        operators: counted ones, those of most time.
        ceilings: None where nothing is known of the device.
        missing: why nothing could be counted, and what to do; "" where something was.
    """

    classes: list[Work] = []
    operators: list[Work] = []
    ceilings: Ceilings | None = None
    missing: str = ""
