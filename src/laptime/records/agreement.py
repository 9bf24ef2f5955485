"""How far a model's outputs are from those of another implementation; `analysis.agreement` measures and
judges."""

from __future__ import annotations

from msgspec import Struct


class OutputError(Struct, frozen=True, kw_only=True):
    """How far one output tensor is from the reference's; see `analysis.agreement`.

    Attributes:
        output: its place.
        rms, largest, gain, spread: see there. Of whole numbers `rms` is the share that differs. Gain and
            spread are None where nothing tells.
        absolute: largest absolute error, in the output's own unit.
        cosine: of all calls as one vector; 1 for equal ones.
        top1: share of rows whose largest element is at the same place; None for other outputs.
        exact: whole numbers or booleans.
        rounding: see there; 0 where it is not known.
        worst: place of the call whose RMS error is the largest.
        small: see there; 0 where no column is small.
    """

    output: int
    rms: float
    largest: float
    absolute: float
    gain: float | None = None
    spread: float | None = None
    cosine: float
    top1: float | None = None
    exact: bool = False
    rounding: float = 0.0
    worst: int = 0
    small: float = 0.0


class Agreement(Struct, frozen=True, kw_only=True):
    """Outputs against a reference's.

    Attributes:
        against: whose they are compared with.
        dtype: the reference's precision.
        inputs: number of different inputs.
        batches: their batch sizes.
        outputs: one entry an output tensor that is not empty.
        reason: why there are none: shapes differ, the call failed.
        undetermined: why nothing could be compared: the reference draws random numbers.
    """

    against: str
    dtype: str = "float32"
    inputs: int = 0
    batches: list[int] = []
    outputs: list[OutputError] = []
    reason: str = ""
    undetermined: str = ""
