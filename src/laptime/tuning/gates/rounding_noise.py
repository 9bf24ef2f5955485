"""The effect of rounding alone on a step, from simulations on the baseline, and how much of it a candidate is
granted.

Last bits: the baseline with the last bits of its activations rounded away, as another order of summation
does; three draws, the later ones with larger errors, before a gate fails. An activation whose sign turns
because it lay within a rounding error of zero changes all gradients before it by far more than a rounding
error (ResNet-18, 4 images of 224 x 224, channels_last: 0.2 % of a tensor where 0.001 % was allowed).
LAST_BITS_TIMES what the simulation shows is granted to class reassociated, within bounds: where rounding
errors do more than that, they cannot be told from harm.

Lower precision: the baseline with its activations rounded to a smaller type. Sound bfloat16 turns gradients
of a fresh ResNet-18 to cosines of 0.94 to 0.96 and changes their norm by 1.1 % (standard deviation of 24
draws): fixed limits refuse one sound step in ten. Single tensors are judged by what the same simulation does
to them: sound autocast is 0.9 to 1.4 times as far off, tensor by tensor (`largest`). How far a tensor is
off is measured on its row of a comparison."""

import math
from collections.abc import Callable, Iterable, Sequence

from laptime.tuning.trial.messages import NumericsComparison, TensorComparison

LAST_BITS_TIMES = 3.0  # as for a baseline that differs from itself (`numeric.FLOOR`)
LAST_BITS_ERROR = 0.2
"""Most that is granted: relative error of a tensor. Measured: channels_last on a fresh RegNet (16 images of
64 x 64, AdamW) changed a step of a BatchNorm's bias by 5.7 %, on a fresh MobileNetV2 (16 images of 32 x 32)
gradients by 7 to 11 %, cosines of all of them were 0.9979 to 0.9994, norms 0.989 to 1.009."""
LAST_BITS_NORM, LAST_BITS_NORM_TURNED = 0.01, 0.03
"""Most that is granted of the norm of all gradients, and of those that were turned (`PRECISION_ALONG`)."""
LAST_BITS_COSINE = 0.99  # least cosine of all gradients, whatever the simulation shows
PRECISION_TIMES = 2.0
"""Of the norm, and of the square of an error across a gradient: this many times what the simulation shows."""
PRECISION_NORM, PRECISION_NORM_LOUD = 0.1, 0.3
"""Most that is granted of the norm of all gradients: as of updates, and where simulated rounding itself
changes it by more than half of that. Measured: of a fresh ShuffleNet rounding changed it by up to 18 %, sound
autocast by 13 %."""
PRECISION_ALONG = 0.5
"""Share of the error across a step's gradients that may lie along them. Measured: up to 0.28 of sound
autocast and 0.37 of simulated rounding (ResNet-18, 8 images of 48 x 48, and others)."""
_LEAST_COSINE = 1e-3
PRECISION_USUAL_COSINE = 0.99  # least cosine if rounding has turned the gradients by less
PRECISION_COSINE = 0.15
"""Least cosine, whatever the simulation shows: gradients that rounding turns by more cannot be compared.
Measured: sound autocast turned those of a fresh ShuffleNet (16 images of 64 x 64) to 0.36 to 0.61, simulated
rounding to 0.24 to 0.56."""
TENSOR_ERROR_TIMES = 2.0
"""Relative error of a tensor's gradient or buffer, times the largest of all simulated steps. Measured: 0.4 to
1.1 on tensors that rounding changes by 5 % or more, with three draws of three steps; 1.4 where it changes
them by less than 1 %."""
TENSOR_NORM_TIMES = 3.0
"""Of the norm of one tensor: a signed difference, so the largest of few draws may be near zero."""


def largest(
    simulations: Sequence[NumericsComparison], measure: Callable[[TensorComparison], float]
) -> dict[tuple[str, str], float]:
    """Return the effect of simulated rounding on each tensor, by group and name: the largest of all draws."""
    found: dict[tuple[str, str], float] = {}
    for row in (row for simulation in simulations for row in simulation.tensors if row.point):
        key = row.group, row.name
        found[key] = max(measure(row), found.get(key, 0.0))
    return found


def _find_turns(rows: Iterable[TensorComparison]) -> list[float]:
    """1 - cosine of each, if it is known."""
    return [1 - row.cosine for row in rows if row.cosine is not None]


def _compare_norms(rows: Iterable[TensorComparison]) -> list[float]:
    """Return how far the norm of each is off, relative, if it is known."""
    return [abs(row.norm / row.base_norm - 1) for row in rows if row.norm and row.base_norm]


def _square_across(cosine: float) -> float:
    """e^2 of an error of length e across a gradient, which turns it to a cosine of 1 / sqrt(1 + e^2)."""
    return 1 / min(max(cosine, _LEAST_COSINE), 1.0) ** 2 - 1


def last_bits_errors(
    rows: Iterable[TensorComparison], scale: Callable[[TensorComparison], float]
) -> dict[str, float]:
    """Return, by group, the relative error allowed for its tensors: rounding strikes another one each time.
    rows: tensors of the simulation. scale: what the error of a row is relative to."""
    errors: dict[str, float] = {}
    for row in rows:
        if row.point and row.error is not None:
            error = min(LAST_BITS_ERROR, LAST_BITS_TIMES * row.error / scale(row))
            errors[row.group] = max(error, errors.get(row.group, 0.0))
    return errors


def last_bits_norm(candidate: TensorComparison, simulated: Sequence[TensorComparison]) -> float:
    """Return how far the norm of all gradients of a step may be off, relative, in class reassociated.
    More than `LAST_BITS_NORM` is granted to gradients that were turned only, as in `precision_norm`."""
    most = min(LAST_BITS_NORM_TURNED, PRECISION_ALONG * across(candidate))
    return min(max(LAST_BITS_NORM, most), LAST_BITS_TIMES * max(_compare_norms(simulated), default=0.0))


def last_bits_cosine(simulated: Sequence[TensorComparison], usual: float) -> float:
    """The least cosine of all gradients in class reassociated."""
    return min(usual, max(LAST_BITS_COSINE, 1 - LAST_BITS_TIMES * max(_find_turns(simulated), default=0.0)))


def precision_norm(candidate: TensorComparison, simulated: Sequence[TensorComparison]) -> float:
    """Return how far the norm of all gradients of a step may be off, relative, in class precision.

    Rounding adds to a gradient g an error of length e |g|. Its part across g turns g (`_square_across`) and
    changes its norm by e^2 / 2; its part along g changes it besides. So granted is what that costs where
    rounding was simulated, 1 - cosine, or twice how far off its norm was; but of e itself no more than a
    share, so next to nothing to gradients that were not turned themselves: those are scaled.

    candidate: all gradients of the step. simulated: all gradients, by step."""
    across = math.sqrt(_square_across(candidate.cosine or 0.0))
    lengthened = PRECISION_TIMES * max(_compare_norms(simulated), default=0.0)
    noise = max(max(_find_turns(simulated), default=0.0), lengthened)
    most = min(max(PRECISION_NORM, lengthened), PRECISION_NORM_LOUD)
    return min(most, PRECISION_ALONG * across, noise)


def grant_to_turned(across: float) -> float:
    """Return how far the norm of a tensor may be off, relative, where it and its simulation are turned by an
    error of length `across` (relative). Sound bf16 of imagenet's ResNet-18, batch 4: 12 % at 0.36."""
    return min(PRECISION_NORM_LOUD, PRECISION_ALONG * across)


def precision_cosine(simulated: Sequence[TensorComparison], usual: float) -> float:
    """The least cosine of all gradients in class precision; `usual` if the simulation tells nothing."""
    turns = _find_turns(simulated)
    if not turns:
        return usual
    error = PRECISION_TIMES * _square_across(1 - max(turns))
    return min(PRECISION_USUAL_COSINE, max(PRECISION_COSINE, 1 / math.sqrt(1 + error)))


def without_gradient(comparison: NumericsComparison) -> set[str]:
    """Parameters whose gradient is rounding error alone: as far from exact as it is long."""
    names = set()
    totals = {(row.step, row.group): row for row in comparison.totals}
    for row in comparison.tensors:
        if row.group != "gradients" or row.rms is None:
            continue
        if row.base_error is not None and row.reference_norm is not None:
            exact = row.reference_norm / math.sqrt(max(row.elements, 1))
            if row.base_error > 0.5 * exact:
                names.add(row.name)
        elif row.rms < 1e-6 * (totals[row.step, "gradients"].rms or 0.0):
            names.add(row.name)
    return names


# One tensor


TINY = 1e-30


def over(value: float | None, scale: float) -> float:
    """An error as a share of a scale; infinite if it is not known."""
    return math.inf if value is None else value / scale


def relative(row: TensorComparison) -> float:
    """RMS of the difference over the baseline's RMS."""
    return over(row.error, max(row.rms or 0.0, TINY))


def turn(row: TensorComparison) -> float:
    """1 - cosine with the baseline's."""
    return 1 - (row.cosine or 0.0)


def stretch(row: TensorComparison) -> float:
    """The part of a tensor along the baseline's: how far it is from the same length."""
    return abs((row.cosine or 0.0) * (row.norm or 0.0) / max(row.base_norm or 0.0, TINY) - 1)


def across(row: TensorComparison) -> float:
    """Length of the part of a tensor across the baseline's, over the baseline's length."""
    sine = math.sqrt(max(1 - (row.cosine or 0.0) ** 2, 0.0))
    return sine * (row.norm or 0.0) / max(row.base_norm or 0.0, TINY)


def overshoot(value: float, limit: float) -> float:
    """A value as a share of its limit: above 1 it fails."""
    if limit > 0:
        return value / limit
    return 0.0 if value == 0 else math.inf


def totals_of(comparison: NumericsComparison, group: str) -> list[TensorComparison]:
    """Rows of a whole group, one a step."""
    return [row for row in comparison.totals if row.group == group]
