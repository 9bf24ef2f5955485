"""Faster than the hardware's peak means that something was not synchronised, or not run at all."""

from __future__ import annotations

from laptime.analysis.summary import summarize
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting

HEADROOM = 1.2
"""Measured peaks come from a few matrix products; a real model may beat them by a little, not by a fifth."""


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail when counted FLOPs over measured time exceed the peak of the device for this dtype."""
    peak = case.details.get("peak", {})
    counted = next((s.samples[0] for s in case.series if s.metric.tag == "flops" and s.samples), None)
    if not peak.get("flops") or not counted:
        return None
    stats = summarize(case)
    for regime in ("isolated", "saturated", "device", "paced"):
        stat = stats.get(f"latency/{regime}/median")
        if stat is None or not stat.value:
            continue
        rate = counted / stat.value
        if rate > HEADROOM * peak["flops"]:
            return Check(
                name="faster_than_hardware",
                outcome="fail",
                sentence=f"{regime} latency means {rate / 1e12:.3g} TFLOP/s, but this device's "
                f"{peak.get('source', 'peak')} is {peak['flops'] / 1e12:.3g} TFLOP/s",
                next="the call returns before the work is done: synchronise inside the model's function",
            )
    return Check(
        name="faster_than_hardware", outcome="ok", sentence="slower than the hardware's peak, as it must be"
    )
