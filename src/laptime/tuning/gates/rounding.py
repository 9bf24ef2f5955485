"""What a smaller type alone does to a step: the baseline with its activations rounded to it.

Sound bfloat16 turns gradients of a fresh ResNet-18 to cosines of 0.94 to 0.96 and changes their norm by 1.1 %
(standard deviation of 24 draws): fixed limits refuse one sound step in ten.
"""

from __future__ import annotations

from collections.abc import Sequence

from laptime.tuning.gates.captured_numerics import Row, lengthened, turned

TIMES = 2.0
"""That a candidate may be off as much as the simulation is."""
MOST = 0.1
"""Of the norm of all gradients, whatever rounding does: as of updates."""
USUAL_COSINE = 0.99
"""Least cosine where rounding has turned the gradients by less."""
LEAST_COSINE = 0.5
"""Gradients that rounding turns by more are none to compare with: then they may be turned so far."""


def norm(own: Sequence[Row], rounded: Sequence[Row], usual: float) -> float:
    """How far the norm of all gradients may be off, relative.

    Rounding adds to a gradient g an error of length e |g|. Its part across g turns g to a cosine of about
    1 - e^2 / 2 and changes its norm by as much; its part along g changes it besides. So granted is what that
    costs where rounding was simulated, 1 - cosine, or twice how far off its norm was; but nothing to
    gradients that were not turned themselves: those are scaled.

    Args:
        own: all gradients of the candidate, by step. rounded: of the baseline with rounded activations.
    """
    simulated = max(max(turned(rounded), default=0.0), TIMES * max(lengthened(rounded), default=0.0))
    return max(usual, min(MOST, TIMES * min(turned(own), default=0.0), simulated))


def cosine(rounded: Sequence[Row], usual: float) -> float:
    """The least cosine of all gradients; `usual` where the simulation tells nothing."""
    simulated = turned(rounded)
    return min(USUAL_COSINE, max(LEAST_COSINE, 1 - TIMES * max(simulated))) if simulated else usual
