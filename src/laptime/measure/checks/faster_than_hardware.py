"""Faster than the hardware's peak means that something was not synchronised, or not run at all."""

from laptime.analysis.achieved import TAG as PEAK
from laptime.analysis.summary import summarize
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.details import Peak
from laptime.records.series import Regime

HEADROOM = 1.2  # a peak measured by a few matrix products may be beaten by a little, not by a fifth ..
DISTURBED = 3.0
"""... unless a busy machine spoilt the measured peak, which shows only if the datasheet's is known. The
datasheet's peak alone is not certain either: it rests on a clock that virtual machines may hide."""


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail when counted FLOPs over measured time exceed what the device can do in this dtype."""
    peak = case.details.peak or Peak()
    counted = next((s.samples[0] for s in case.series if s.metric.tag == "flops" and s.samples), None)
    blocks = case.find(PEAK)
    # What disturbs a product only slows it down: the device can do what its fastest block shows.
    measured = max(blocks.samples) if blocks is not None and blocks.samples else peak.flops
    on_paper = peak.limit
    if not (measured or on_paper) or not counted:
        return None
    if measured and on_paper:
        limit = max(HEADROOM * measured, on_paper)
    else:
        limit = DISTURBED * (measured or on_paper or 0.0)
    stats = summarize(case)
    for regime in (Regime.ISOLATED, Regime.SATURATED, Regime.DEVICE):
        stat = stats.get(f"latency/{regime}/median")
        if stat is None or not stat.value:
            continue
        rate = counted / stat.value
        if rate > limit:
            return Check(
                "faster_than_hardware",
                "fail",
                f"{regime} latency means {rate / 1e12:.3g} TFLOP/s, more than the "
                f"{limit / 1e12:.3g} TFLOP/s that this device can do",
                "the call returns before the work is done: synchronise inside the model's function",
            )
    return Check("faster_than_hardware", "ok", "slower than the hardware's peak, as it must be")
