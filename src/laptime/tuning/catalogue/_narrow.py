"""How much of a step's computing narrower numbers can save."""

from __future__ import annotations

from laptime.tuning.loop_profile import LoopProfile

BYTES = 0.25
"""Of operators that are neither products nor convolutions: half of the bytes, where bytes are half of their
time. A chain of tiny ones saves nothing at all."""


def gain(loop_profile: LoopProfile, products: float, others: float = BYTES) -> float:
    """Share of forward and backward that is saved at most.

    Args:
        products: saved of products and convolutions; others: of everything else. On the CPU the diagnosis has
            timed the operators by these two kinds; where it has not, all counts as products.
    """
    rest = loop_profile.details.get("operators", {}).get("fusable") or 0.0
    return float(products * (1 - rest) + others * rest)
