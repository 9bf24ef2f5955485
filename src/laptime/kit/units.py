"""Amounts as people read and type them: SI base units inside, readable ones only when shown.

Digits follow the interval: a value is never printed finer than its uncertainty supports."""

import math
import re

from laptime.kit.errors import not_a
from laptime.kit.text import closest

# Unit of a stored quantity -> (factor, shown unit), largest first. The empty string is a plain number.
_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "s": ((60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")),
    "FLOP": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1.0, "FLOP")),
    "MAC": ((1e12, "TMAC"), (1e9, "GMAC"), (1e6, "MMAC"), (1e3, "kMAC"), (1.0, "MAC")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "1/s": ((1.0, "/s"),),
    "1": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    "ratio": ((1e-2, "%"),),
}
_STEPS["FLOP/s"] = tuple((factor, f"{name}/s") for factor, name in _STEPS["FLOP"])
NEARLY = 0.9995
"""Of a unit from which a value is shown in it: with three figures it would be 1,000 of the smaller one."""


def scale(value: float, unit: str, half: float = 0.0) -> tuple[float, str]:
    """The factor to divide by, and the unit to show, for a value stored in a base unit. half: half-width of
    its interval, to whose first digit it is rounded: 996 us with 12 us is 1.00 ms."""
    steps = _STEPS.get(unit)
    if steps is None:
        return 1.0, unit
    # Seconds go to minutes only from two minutes on: 90 s reads better than 1.5 min.
    floor = 2.0 if unit == "s" and abs(value) >= 60.0 else 1.0
    up = 10 ** math.floor(math.log10(half)) / 2 if 0 < half < abs(value) else 0.0
    for factor, name in steps:
        if max(abs(value) + up, abs(value) / NEARLY) >= factor * (floor if factor == 60.0 else 1.0):
            return factor, name
    return steps[-1] if value else next((step for step in steps if step[0] == 1.0), steps[0])


def names(unit: str) -> dict[str, float]:
    """Return how amounts of a stored unit are written, each with its factor: `{"s": 1, "ms": 1e-3, ...}`."""
    steps = {name: factor for factor, name in _STEPS.get(unit, ())}
    return {unit: 1.0, **steps, **({"": 1.0} if unit in ("1", "ratio") else {})}


def decimals(value: float, half_width: float | None, *, figures: int = 3) -> int:
    """Return how many decimals a value supports.

    With an interval, the last digit shown is the one in which the half-width has its first digit (so the next
    digit would be noise). Without one, so many significant figures."""
    if half_width and half_width > 0 and math.isfinite(half_width):
        return min(6, max(0, -math.floor(math.log10(half_width))))
    if value == 0 or not math.isfinite(value):
        return 0
    return min(6, max(0, figures - 1 - math.floor(math.log10(min(abs(value), 1e300) / NEARLY))))


def show(value: float | None, unit: str, ci95: tuple[float, float] | None = None) -> str:
    """A stored value as people read it, `26.3 ms`, with digits no finer than its interval."""
    if value is None or not math.isfinite(value):
        return "-" if value is None else str(value)
    half = (ci95[1] - ci95[0]) / 2 if ci95 else 0.0
    factor, name = scale(value, unit, half)
    number, half = value / factor, half / factor
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
        text = _nonzero(number, decimals(number, half))
    return f"{text} {name}".rstrip() if name != "/s" else f"{text}/s"


def show_interval(ci95: tuple[float, float] | None, value: float, unit: str) -> str:
    """`[25.9, 26.8] ms` or `[37.9, 38.0]/s`, in the unit that the value itself is shown in."""
    if ci95 is None:
        return "-"
    factor, name = scale(value, unit, (ci95[1] - ci95[0]) / 2)
    low, high = ci95[0] / factor, ci95[1] / factor
    digits = decimals(value / factor, (high - low) / 2)
    space = "" if name in ("", "/s") else " "
    start, end = (_nonzero(each, digits) for each in (low, high))
    return f"[{start}, {'inf)' if math.isinf(high) else f'{end}]'}{space}{name}"


def _nonzero(number: float, digits: int) -> str:
    """The number with these decimals; however wide its interval is, what is not zero is not shown as zero."""
    text = f"{number:,.{digits}f}"
    if number and not float(text.replace(",", "")):
        return f"{number:,.{decimals(number, None, figures=1)}f}"
    return text


def estimate(text: str, interval: str) -> str:
    """A shown value and its interval with their unit once: `26.3 [25.9, 26.8] ms`, `38 [37, 39]/s`."""
    if not interval.startswith("["):
        return text
    unit = interval[max(map(interval.rfind, "])")) + 1 :]
    return f"{text.removesuffix(unit)} {interval}"


def percent(share: float) -> str:
    """`18 %` from a tenth on, `0.6 %` below, `0.02 %` if one decimal would say zero."""
    number = 100 * share
    return f"{number:.1g} %" if 0 < number < 0.1 else f"{number:.{1 if number < 9.95 else 0}f} %"


# As people type them: `90s`, `2m`, `1.5h`, `1%`.

_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "": 1,
    **{name: 1000**power for power, name in enumerate("kmgt", 1)},
    **{f"{name}i": 1024**power for power, name in enumerate("kmgt", 1)},
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+)\s*(\D*?)\s*", re.ASCII)
_TYPED = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z%]*)\s*", re.IGNORECASE | re.ASCII)


def seconds(text: str) -> float:
    """Seconds in a duration: `500ms`, `90s`, `2m`, `1.5h`; a bare number is seconds. Above zero.
    Raises UsageError: not a duration, or zero."""
    match = _TYPED.fullmatch(text)
    factor = _SECONDS.get(match[2].lower()) if match else None
    value = float(match[1]) * factor if match and factor else math.nan
    if not 0 < value < math.inf:
        takes = "a number above zero and one of ms, s, m, h"
        raise not_a("a duration", text, takes, "for example 90s, 2m or 1.5h")
    return value


def share(text: str) -> float:
    """The ratio in a percentage: `1%` is 0.01, and so is `0.01`. Between 0 and 1, both left out.

    A bare `1` is refused: it may mean 1 % or all of it.

    Raises UsageError: not a percentage, or outside its range."""
    match = _TYPED.fullmatch(text)
    unit = match[2] if match else "?"
    value = float(match[1]) / (100.0 if unit == "%" else 1.0) if match and unit in ("", "%") else math.nan
    if not 0 < value < 1:
        is_bare = unit == "" and 1 <= value <= 100
        takes = "a number above zero with a % sign, or a ratio below 1"
        next = f"did you mean {text.strip()}%?" if is_bare else "for example 1% or 0.01"
        raise not_a("a percentage between 0 % and 100 %", text, takes, next)
    return value


def size(text: str) -> int:
    """Bytes in a size: `8GB` is 8e9, `8GiB` is 8 times 2 to the 30th; a bare number is bytes. Above zero.
    Raises UsageError: not a size, or less than one byte."""
    match = _TYPED.fullmatch(text)
    factor = _BYTES.get(match[2].lower().removesuffix("b")) if match else None
    value = int(float(match[1]) * factor) if match and factor else 0
    if value < 1:
        takes = "a number above zero and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
        raise not_a("a size", text, takes, "for example 8GB or 512MiB")
    return value


def amount(text: str, unit: str) -> float:
    """An amount as people write it, in a stored unit: `30 ms` is 0.03 in s, `2GiB`, `100/s`, `1.5 GFLOP`.
    Raises UsageError: no number, or a unit that does not measure the same."""
    match = _AMOUNT.fullmatch(text)
    known = names(unit)
    factor = known.get(match[2]) if match else None
    if match is None or factor is None:
        near = closest(match[2], known) if match and match[2] else None
        next = f"did you mean {match[1]} {near}?" if match and near else "for example 30 ms"
        takes = f"a number and one of {', '.join(name for name in known if name) or unit}"
        raise not_a(f"an amount in {unit}", text, takes, next)
    return float(match[1]) * factor


# US dollars: cents from one dollar on, else three figures, no finer than intervals.


def usd(value: float | None, ci95: tuple[float, float] | None = None) -> str:
    """`1,121.28`, `0.112`, `0.00042`; with an interval, digits no finer than it supports."""
    if value is None or not math.isfinite(value):
        return "-" if value is None else "no limit"
    half = (ci95[1] - ci95[0]) / 2 if ci95 else None
    return f"{value:,.{_digits(value, half)}f}"


def usd_interval(ci95: tuple[float, float] | None) -> str:
    """`[0.109, 0.115]`; empty if there is none."""
    if ci95 is None:
        return ""
    low, high = ci95
    digits = _digits(low or high, (high - low) / 2)
    ends = (f"{end:,.{digits}f}" if math.isfinite(end) else "inf" for end in ci95)
    return f"[{', '.join(ends)}]"


def _digits(value: float, half: float | None) -> int:
    if half and math.isfinite(half):
        return min(8, max(0, -math.floor(math.log10(half))))
    return 2 if abs(value) >= 1 or not value else max(2, decimals(value, None) if abs(value) > 1e-4 else 8)
