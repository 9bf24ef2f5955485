"""What a program makes of its device: FLOP/s, per core, and as a share of the measured peak."""

from __future__ import annotations

from msgspec import structs

from laptime.analysis.peak import Peak, measured_peak
from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.plan import TODAY, Constants


def achieved(case: Case, flops: Stat | None, rate: Stat | None, constants: Constants = TODAY) -> list[Stat]:
    """Achieved FLOP/s: counted FLOPs of one call over its time; per core or vCPU; its share of the peak.

    Of an incomplete count the rates are lower bounds, and there is no share.

    Args:
        flops: FLOPs of one call.
        rate: items per second.
    """
    if flops is None or not flops.value or rate is None or not rate.value:
        return []
    per_item = flops.value / case.batch
    derived = [rate.scaled("flops/achieved", "achieved FLOP/s", per_item, unit="FLOP/s")]
    if case.axes.get("device") == "cpu":
        # Where the hypervisor hides which CPUs share a core, there is no number of cores.
        if cores := case.details.physical_cores:
            title = "FLOP/s per physical core"
            derived.append(rate.scaled("flops/per_core", title, per_item / cores, unit="FLOP/s"))
        elif vcpus := case.details.usable_cpus:
            derived.append(rate.scaled("flops/per_vcpu", "FLOP/s per vCPU", per_item / vcpus, unit="FLOP/s"))
    if flops.at_least:
        return [structs.replace(stat, at_least=True, note=flops.note) for stat in derived]
    peak = measured_peak(case, constants)
    return derived if peak is None else [*derived, _share(case, derived[0], peak)]


def _share(case: Case, rate: Stat, peak: Peak) -> Stat:
    """Achieved FLOP/s over the measured peak, with both intervals; no value where it would mislead."""
    share = rate.scaled("flops/share_of_peak", "share of peak", 1.0, unit="ratio")
    if peak.quantity is None or rate.quantity is None:
        return share.without(peak.why_not)
    of_peak = rate.quantity.divided(peak.quantity, "ratio")
    if of_peak.value > 1:
        return share.without(f"the counted work is done at {of_peak.value:.2f}x the measured peak")
    return structs.replace(
        share, quantity=of_peak, note=case.details.peak.source if case.details.peak else ""
    )
