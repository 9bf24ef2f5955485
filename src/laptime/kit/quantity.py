"""Quantities as people type them: `90s`, `2m`, `1.5h`, `1%`. The reverse of `units`."""

from __future__ import annotations

import math
import re

from laptime.kit import units
from laptime.kit.errors import UsageError
from laptime.kit.text import closest

_SECONDS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "": 1,
    **{name: 1000**power for power, name in enumerate("kmgt", 1)},
    **{f"{name}i": 1024**power for power, name in enumerate("kmgt", 1)},
}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+)\s*(\D*?)\s*", re.ASCII)
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z%]*)\s*", re.IGNORECASE | re.ASCII)


def seconds(text: str) -> float:
    """Seconds in a duration: `500ms`, `90s`, `2m`, `1.5h`; a bare number is seconds. Above zero.

    Raises:
        UsageError: not a duration, or zero.
    """
    match = _QUANTITY.fullmatch(text)
    factor = _SECONDS.get(match[2].lower()) if match else None
    value = float(match[1]) * factor if match and factor else math.nan
    if not 0 < value < math.inf:
        raise UsageError(
            f"{text!r} is not a duration",
            why="it takes a number above zero and one of ms, s, m, h",
            next="90s, 2m or 1.5h, say",
        )
    return value


def share(text: str) -> float:
    """The ratio in a percentage: `1%` is 0.01, and so is `0.01`. Between 0 and 1, both left out.

    A bare `1` is refused: it may mean 1 % or all of it.

    Raises:
        UsageError: not a percentage, or outside its range.
    """
    match = _QUANTITY.fullmatch(text)
    unit = match[2] if match else "?"
    value = float(match[1]) / (100.0 if unit == "%" else 1.0) if match and unit in ("", "%") else math.nan
    if not 0 < value < 1:
        bare = unit == "" and 1 <= value <= 100
        raise UsageError(
            f"{text!r} is not a percentage between 0 % and 100 %",
            why="it takes a number above zero with a % sign, or a ratio below 1",
            next=f"did you mean {text.strip()}%?" if bare else "1% or 0.01, say",
        )
    return value


def size(text: str) -> int:
    """Bytes in a size: `8GB` is 8e9, `8GiB` is 8 times 2 to the 30th; a bare number is bytes. Above zero.

    Raises:
        UsageError: not a size, or less than one byte.
    """
    match = _QUANTITY.fullmatch(text)
    factor = _BYTES.get(match[2].lower().removesuffix("b")) if match else None
    value = int(float(match[1]) * factor) if match and factor else 0
    if value < 1:
        raise UsageError(
            f"{text!r} is not a size",
            why="it takes a number above zero and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB",
            next="8GB or 512MiB, say",
        )
    return value


def amount(text: str, unit: str) -> float:
    """An amount as people write it, in a stored unit: `30 ms` is 0.03 in s, `2GiB`, `100/s`, `1.5 GFLOP`.

    Raises:
        UsageError: no number, or a unit that does not measure the same.
    """
    match = _AMOUNT.fullmatch(text)
    names = units.names(unit)
    factor = names.get(match[2]) if match else None
    if match is None or factor is None:
        near = closest(match[2], names) if match and match[2] else None
        raise UsageError(
            f"{text!r} is no amount in {unit}",
            why=f"it takes a number and one of {', '.join(name for name in names if name) or unit}",
            next=f"did you mean {match[1]} {near}?" if match and near else "30 ms, say",
        )
    return float(match[1]) * factor
