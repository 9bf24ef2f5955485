"""A Pareto front holds all that is not dominated, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laptime.analysis.pareto import dominates, front

numbers = st.one_of(st.integers(0, 5).map(float), st.floats(0, 1e9, allow_nan=False))
Point = tuple[float, float, float]
clouds = st.lists(st.tuples(numbers, numbers, numbers), max_size=30)


@given(clouds)
def test_no_point_of_a_front_is_dominated_and_every_other_is(
    points: list[Point],
) -> None:
    best = front(points)
    assert not any(dominates(other, points[at]) for at in best for other in points)
    for at in set(range(len(points))) - set(best):
        assert any(dominates(points[place], points[at]) for place in best)


@given(clouds.filter(bool))
def test_the_best_of_each_coordinate_is_on_the_front(points: list[Point]) -> None:
    kept = [points[at] for at in front(points)]
    assert [min(each) for each in zip(*kept, strict=True)] == [
        min(each) for each in zip(*points, strict=True)
    ]
