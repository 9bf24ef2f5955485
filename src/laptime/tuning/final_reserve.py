"""How much of a budget a search leaves to what follows it: one rule for scripts and for models."""

from __future__ import annotations

MOST_RESERVED = 0.4
"""Share of the budget that is kept back at most for more than the least: something is tried first."""
CAUTION = 1.15
"""Factor on what is kept back: a machine that others use is slower at times."""


def kept_back(usual: float, least: float, budget: float) -> float:
    """Seconds of a budget that a search leaves alone: the usual, and never less than the least.

    Args:
        usual, least: expected seconds of what follows the search.
    """
    return CAUTION * max(least, min(usual, MOST_RESERVED * budget / CAUTION))
