"""What is said of the throughput of several batch sizes."""

from __future__ import annotations

from typing import Any

from laptime.analysis.knee import KNEE, Knee, find_knee
from laptime.analysis.summary import throughput_regime, throughput_regimes, throughputs
from laptime.records.case import Case
from laptime.records.check import Finding
from laptime.records.series import Regime


def knee(group: list[Case], *, largest: int | None) -> Finding | None:
    """The smallest batch that is nearly as good as the best, or between which sizes it lies; None below two.

    Args:
        group: cases of one program that differ in their batch size alone; none that is invalid.
        largest: batch that fits, where that is known.
    """
    every = [throughputs(case) for case in group]
    on_cpu = group[0].axes.get("device") == "cpu"
    regime = throughput_regime(every, on_cpu=on_cpu)
    if regime is None or len(group) < 2:
        return None
    own = throughput_regimes(every, on_cpu=on_cpu)
    rates = {case.batch: stats[name] for case, stats, name in zip(group, every, own, strict=True) if name}
    if any(stat.crowded for stat in rates.values()):
        return None
    # On a CPU calls one by one do the same work: the pairs of both may tell.
    alike = (Regime.SATURATED, Regime.ISOLATED) if on_cpu else (regime,)
    found = find_knee(group, alike)
    values = {batch: stat.value or 0.0 for batch, stat in sorted(rates.items())}
    best = max(values, key=lambda batch: values[batch])
    batch, sentence, advice = _said(found, values, best, largest)
    evidence: dict[str, Any] = {
        "knee": batch,
        "best": best,
        "throughput": {str(size): value for size, value in values.items()},
        "regime": regime,
        "candidates": found.candidates,
        "largest": largest,
    }
    keys = [case.key for case in group]
    return Finding(
        kind="batch/knee", severity="info", sentence=sentence, evidence=evidence, next=advice, cases=keys
    )


def _said(
    found: Knee, values: dict[int, float], best: int, largest: int | None
) -> tuple[int | None, str, str]:
    """The knee if it is one, the sentence, and what to type next."""
    top = max(values)
    if top != largest and (found.is_rising or found.batch == top):
        text = f"throughput still rises at batch {top} ({values[top]:,.4g} items/s), the largest measured"
        return None, f"{text}: no knee is told", f"--batch {top},{2 * top},{4 * top}   goes on from there"
    if found.batch is None:
        sizes = found.candidates or [best]
        again = ",".join(map(str, sorted({*sizes, best})))
        if top in sizes and top != largest:
            text = f"whether throughput still rises at batch {top}, the largest measured, is unclear"
            return None, f"{text}: no knee is told", f"--batch {again} --preset strict   measures these alone"
        between = f"one of {_list(sizes)}" if len(sizes) > 1 else f"{sizes[0]} or a larger one"
        text = f"the smallest batch within {KNEE:.0%} of the best throughput is {between}: unclear which"
        return None, text, f"--batch {again} --preset strict   measures these alone"
    text = f"batch {found.batch} is the smallest within {KNEE:.0%} of the best throughput"
    if found.batch == best:
        text += f" ({values[best]:,.4g} items/s)"
    else:
        text += f" ({values[found.batch]:,.4g} against {values[best]:,.4g} items/s at batch {best})"
    if best == top:
        text += (
            f"; batch {top} is the largest that fits" if top == largest else "; larger ones were not measured"
        )
    return found.batch, text, ""


def _list(sizes: list[int]) -> str:
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
