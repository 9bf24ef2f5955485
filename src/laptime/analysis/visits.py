"""Visits to machines and links, as `doctor --on` makes them: seconds by speed, one value a visit.

    link    time of an all-reduce = latency + bytes / bandwidth (Hockney 1994), by least squares whose errors
            are shares of the time. A line a visit: intervals are those of visits, as for machines.

Lies when: a library changes its algorithm between two sizes, so that times lie on no line."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from laptime.records.case import Case
from laptime.records.series import SHORTEST, Regime

BETWEEN = " - "  # the two machines in the name of a link
LATENCY, BANDWIDTH = "latency", "bandwidth"


def line(times: Mapping[int, float]) -> tuple[float, float]:
    """Seconds of a message without bytes, and of each byte. times: seconds by bytes, two sizes at least."""
    one, x, y, xx, xy = (
        sum(size**power * time**height / time**2 for size, time in times.items())
        for power, height in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))
    )
    slope = (one * xy - x * y) / (one * xx - x * x)
    return max(SHORTEST, (y - slope * x) / one), max(SHORTEST**2, slope)


def seconds(cases: Iterable[Case]) -> dict[str, dict[str, list[float]]]:
    """By machine and what was measured of it; by link, of its latency, and of a byte under `bandwidth`."""
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    messages: dict[str, dict[int, list[float]]] = defaultdict(dict)
    for case in cases:
        series, name = case.find("latency", Regime.ISOLATED), str(case.axes["machine"])
        if series is None or not series.samples:
            continue
        if isinstance(size := case.axes.get("bytes"), int):
            messages[name][size] = series.samples
        else:
            found[name][str(case.axes["speed"])] = series.samples
    for name, sizes in messages.items():
        visits = [line(dict(zip(sizes, times, strict=True))) for times in zip(*sizes.values(), strict=False)]
        found[name] = {LATENCY: [each for each, _ in visits], BANDWIDTH: [each for _, each in visits]}
    return found
