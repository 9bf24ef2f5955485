"""US dollars as people read them: cents from one dollar on, else three figures, no finer than intervals."""

from __future__ import annotations

import math

from laptime.kit.units import decimals


def usd(value: float | None, ci95: tuple[float, float] | None = None) -> str:
    """`1,121.28`, `0.112`, `0.00042`; with an interval, digits no finer than it supports."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "no limit"
    half = (ci95[1] - ci95[0]) / 2 if ci95 else None
    return f"{value:,.{_digits(value, half)}f}"


def usd_interval(ci95: tuple[float, float] | None) -> str:
    """`[0.109, 0.115]`; empty where there is none."""
    if ci95 is None:
        return ""
    low, high = ci95
    digits = _digits(low or high, (high - low) / 2)
    ends = (f"{end:,.{digits}f}" if math.isfinite(end) else "inf" for end in ci95)
    return f"[{', '.join(ends)}]"


def _digits(value: float, half: float | None) -> int:
    if half and math.isfinite(half):
        return min(8, max(0, -math.floor(math.log10(half))))
    return 2 if abs(value) >= 1 else max(2, decimals(value, None) if abs(value) > 1e-4 else 8)
