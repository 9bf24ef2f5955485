"""SI base units inside, readable ones only when shown.

Digits follow the interval: a value is never printed finer than its uncertainty supports.
"""

from __future__ import annotations

import math

# Unit of a stored quantity -> (factor, shown unit), largest first. The empty string is a plain number.
_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP")),
    "MAC": ((1e12, "TMAC"), (1e9, "GMAC"), (1e6, "MMAC"), (1e3, "kMAC"), (1.0, "MAC")),
    "FLOP/s": (
        (1e12, "TFLOP/s"),
        (1e9, "GFLOP/s"),
        (1e6, "MFLOP/s"),
        (1e3, "kFLOP/s"),
        (1.0, "FLOP/s"),
    ),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "1/s": ((1.0, "/s"),),
    "1": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    "ratio": ((1e-2, "%"),),
}


def scale(value: float, unit: str) -> tuple[float, str]:
    """The factor to divide by, and the unit to show, for a value stored in a base unit."""
    steps = _STEPS.get(unit)
    if steps is None:
        return 1.0, unit
    # Seconds go to minutes only from two minutes on: 90 s reads better than 1.5 min.
    floor = 2.0 if unit == "s" and abs(value) >= 60.0 else 1.0
    for factor, name in steps:
        if abs(value) >= factor * (floor if factor == 60.0 else 1.0):
            return factor, name
    return steps[-1] if value else steps[_base_index(unit)]


def names(unit: str) -> dict[str, float]:
    """How amounts of a stored unit are written, each with its factor: `{"s": 1, "ms": 1e-3, ...}`."""
    steps = {name: factor for factor, name in _STEPS.get(unit, ())}
    return {unit: 1.0, **steps, **({"": 1.0} if unit in ("1", "ratio") else {})}


def _base_index(unit: str) -> int:
    return next(i for i, (factor, _) in enumerate(_STEPS[unit]) if factor == 1.0 or len(_STEPS[unit]) == 1)


def decimals(value: float, half_width: float | None, *, figures: int = 3) -> int:
    """How many decimals a value supports.

    With an interval, the last digit shown is the one in which the half-width has its first digit
    (so the next digit would be noise). Without one, so many significant figures.
    """
    if half_width and half_width > 0 and math.isfinite(half_width):
        return min(6, max(0, -math.floor(math.log10(half_width))))
    if value == 0 or not math.isfinite(value):
        return 0
    return min(6, max(0, figures - 1 - math.floor(math.log10(abs(value)))))


def show(value: float | None, unit: str, ci95: tuple[float, float] | None = None) -> str:
    """A stored value as people read it, `26.3 ms`, with digits no finer than its interval."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    factor, name = scale(value, unit)
    half = (ci95[1] - ci95[0]) / 2 / factor if ci95 else None
    number = value / factor
    if unit == "1" and factor == 1.0 and float(value).is_integer():
        text = f"{value:,.0f}"
    elif half and half >= 10 and half < abs(number):
        # Whole digits, too, may be noise: 2,113 with a half-width of 40 is 2,110.
        step = 10 ** math.floor(math.log10(half))
        rounded = round(number / step) * step
        if ci95 and not ci95[0] <= rounded * factor <= ci95[1]:
            rounded = round(10 * number / step) * step / 10  # no number lies outside of its own interval
        text = f"{rounded:,.0f}"
    else:
        text = f"{number:,.{decimals(number, half)}f}"
        if number and not float(text.replace(",", "")):
            # However wide its interval is, what is no zero is not shown as one.
            text = f"{number:,.{decimals(number, None, figures=1)}f}"
    return f"{text} {name}".rstrip() if name != "/s" else f"{text}/s"


def show_interval(ci95: tuple[float, float] | None, value: float, unit: str) -> str:
    """`[25.9, 26.8] ms` or `[37.9, 38.0]/s`, in the unit that the value itself is shown in."""
    if ci95 is None:
        return "-"
    factor, name = scale(value, unit)
    low, high = ci95[0] / factor, ci95[1] / factor
    digits = decimals(value / factor, (high - low) / 2)
    space = "" if name in ("", "/s") else " "
    if math.isinf(high):
        return f"[{low:,.{digits}f}, inf){space}{name}"
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]{space}{name}"


def estimate(text: str, interval: str) -> str:
    """A shown value and its interval with their unit once: `26.3 [25.9, 26.8] ms`, `38 [37, 39]/s`."""
    if not interval.startswith("["):
        return text
    unit = interval[max(map(interval.rfind, "])")) + 1 :]
    return f"{text.removesuffix(unit)} {interval}"


def percent(share: float) -> str:
    """`18 %` from a tenth on, `0.6 %` below, `0.02 %` where one decimal would say zero."""
    number = 100 * share
    return f"{number:.1g} %" if 0 < number < 0.1 else f"{number:.{1 if number < 9.95 else 0}f} %"
