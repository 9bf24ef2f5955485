"""Points that no other one beats in everything."""

from collections.abc import Sequence


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one is nowhere larger than the other and somewhere smaller."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def front(points: Sequence[Sequence[float]]) -> list[int]:
    """Places of the points that none dominates, in order; of every coordinate less is better.

    Source: the Pareto front, as of Kung, Luccio & Preparata 1975; by comparing all pairs."""
    return [at for at, point in enumerate(points) if not any(dominates(other, point) for other in points)]
