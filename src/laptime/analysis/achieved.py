"""A program's use of its device: FLOP/s, per core, as a share of the measured peak; tokens and bytes of
a language model.

A step of decoding reads every weight and the whole cache for one token of each sequence, so that memory, not
arithmetic, bounds it (Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023, section 2).

    tokens/s      tokens of one item x items/s
    bytes/token   (weights + cache of all sequences + their new entries) / sequences
    bytes/s       bytes of a step x steps/s, beside the copy bandwidth that was measured in the same process
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import structs

from laptime.analysis.evidence import CROWDED, select
from laptime.analysis.quantiles import effective_size
from laptime.analysis.stat import Stat
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.plan import TODAY, Constants
from laptime.records.quantity import Quantity
from laptime.records.series import DISTURBED

TAG = "evidence/peak"
FEWEST = 3  # undisturbed blocks that a peak needs: two always agree well enough
WIDEST = 0.15
"""Half the distance between the tenth and the ninetieth of a hundred blocks, as a share: beyond it the
machine has no peak to be a share of, whatever the interval of its mean."""


class Peak(NamedTuple):
    """The level of a peak."""

    # FLOP/s, the geometric mean of the undisturbed blocks, Student's t on the logarithms; None when it must
    # not be quoted
    quantity: Quantity | None
    why_not: str = ""  # the reason in words; "" when it may be quoted


def estimate_peak(case: Case, constants: Constants = TODAY) -> Peak | None:
    """The peak of this case's device beside its samples; None if none was measured."""
    series = case.find(TAG)
    if series is None or not series.samples:
        is_known = bool(case.details.peak and case.details.peak.flops)
        return Peak(None, why_not="the peak was measured once, apart from the samples") if is_known else None
    evidence = select(series, constants)
    label = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    quiet = int(((label & int(DISTURBED)) == 0).sum())
    needed = max(FEWEST, math.ceil((1 - CROWDED) * len(series.samples)))
    if quiet < needed or evidence.basis not in ("undisturbed", "few"):
        have = f"{quiet} of {len(series.samples)} blocks of the peak were undisturbed"
        return Peak(None, why_not=f"{have}, {needed} are needed")
    logs = np.log(evidence.values)
    low, high = np.quantile(logs, [0.1, 0.9])
    spread = math.expm1(float(high - low) / 2)
    if spread > WIDEST:
        return Peak(None, why_not=f"the measured peak itself swings by ±{spread:.0%}")
    worth = max(2.0, min(len(logs), effective_size(evidence.values)))
    reach = t_quantile(0.975, worth - 1) * float(logs.std(ddof=1)) / math.sqrt(worth)
    mean = float(logs.mean())
    return Peak(Quantity(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), len(logs), "FLOP/s"))


def token_rate(case: Case, rate: Stat | None) -> list[Stat]:
    """Return the rates of a language model's case; empty for other cases. rate: items per second."""
    llm = case.details.known_model.llm
    if llm is None or rate is None or rate.value is None:
        return []
    stats = [rate.scale("tokens/rate", f"{llm.phase} tokens", llm.tokens, unit="1/s")]
    if llm.weight_bytes is None:
        return stats
    per_sequence = llm.cache_bytes * (1 + 1 / llm.context)
    per_token = llm.weight_bytes / case.batch + per_sequence
    note = f"at least: {llm.weight_bytes:,} B of weights, {llm.cache_bytes:,} B of cache a sequence"
    moved = rate.scale("bytes/rate", "memory read while decoding", per_token, unit="B/s")
    counted = Quantity(per_token, unit="B", exact=True)
    stats += [Stat("bytes/token", "bytes moved per token", "B", counted, note=note), moved]
    if llm.bandwidth:
        share = per_token / llm.bandwidth
        stats.append(rate.scale("bytes/share", "of measured copy bandwidth", share, unit="ratio"))
    return stats


def list_rates(case: Case, flops: Stat | None, rate: Stat | None, constants: Constants = TODAY) -> list[Stat]:
    """Achieved FLOP/s: counted FLOPs of one call over its time; per core or vCPU; its share of the peak.

    Of an incomplete count the rates are lower bounds, and there is no share.

    flops: FLOPs of one call. rate: items per second."""
    if flops is None or not flops.value or rate is None or not rate.value:
        return []
    per_item = flops.value / case.batch
    derived = [rate.scale("flops/achieved", "achieved FLOP/s", per_item, unit="FLOP/s")]
    if case.axes.get("device") == "cpu":
        # Where the hypervisor hides which CPUs share a core, there is no number of cores.
        if cores := case.details.physical_cores:
            title = "FLOP/s per physical core"
            derived.append(rate.scale("flops/per_core", title, per_item / cores, unit="FLOP/s"))
        elif vcpus := case.details.usable_cpus:
            derived.append(rate.scale("flops/per_vcpu", "FLOP/s per vCPU", per_item / vcpus, unit="FLOP/s"))
    if flops.at_least:
        return [structs.replace(stat, at_least=True, note=flops.note) for stat in derived]
    peak = estimate_peak(case, constants)
    return derived if peak is None else [*derived, _share(case, derived[0], peak)]


def _share(case: Case, rate: Stat, peak: Peak) -> Stat:
    """Achieved FLOP/s over the measured peak, with both intervals; no value if it would mislead."""
    share = rate.scale("flops/share_of_peak", "share of peak", 1.0, unit="ratio")
    if peak.quantity is None or rate.quantity is None:
        return share.without(peak.why_not)
    of_peak = rate.quantity.divide(peak.quantity, "ratio")
    if of_peak.value > 1:
        return share.without(f"the counted work is done at {of_peak.value:.2f}x the measured peak")
    source = case.details.peak.source if case.details.peak else ""
    return structs.replace(share, quantity=of_peak, note=source)
