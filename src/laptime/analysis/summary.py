"""From raw samples to the numbers people read, each with unit, regime, n and a 95 % interval.

Tags: `latency/<regime>/<statistic>`, `throughput/<regime>`, and the series' own tag for everything that is
measured once (`memory/host/peak`, `params/all`, `flops`, `time/first_call`).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from laptime.analysis.evidence import MIN_SAMPLES, Evidence, select
from laptime.analysis.quantiles import (
    Floats,
    deviation_interval,
    effective_size,
    interval,
    mean_interval,
    quantile,
    samples_needed,
)
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.regime import HEADLINE_ORDER, THROUGHPUT_ORDER
from laptime.records.series import Series

SOUND = 0.05
"""Half-width, as a share, up to which a throughput is taken as it is."""

QUANTILES: dict[str, float] = {"median": 0.5, "p5": 0.05, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class Stat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number as it is shown.

    Attributes:
        tag: stable name.
        title: the words people read.
        value: in `unit`; None when the sample cannot support it, `note` then says what it would need.
        ci95: 95 % interval in `unit`; None for exact counts and where n is too small.
        n: samples behind it.
        regime: isolated, saturated, device, paced; None where it means nothing.
    """

    tag: str
    title: str
    unit: str
    value: float | None
    ci95: tuple[float, float] | None = None
    n: int = 1
    regime: str | None = None
    better: str = "none"
    note: str = ""

    @property
    def precision(self) -> float | None:
        """Half-width of the interval as a share of the value."""
        if self.value in (None, 0) or self.ci95 is None:
            return None
        return (self.ci95[1] - self.ci95[0]) / 2 / abs(self.value)


def summarize(case: Case) -> dict[str, Stat]:
    """All statistics of a case by tag, in the order people want them."""
    stats: list[Stat] = []
    for series in case.series:
        if not series.samples or series.metric.tag.startswith("disturbance/"):
            continue
        if series.metric.tag == "latency":
            stats += latency(series)
            stats.append(throughput(series, batch=case.batch))
        elif len(series.samples) == 1:
            stats.append(_single(series))
        else:
            stats += _several(series)
    return {stat.tag: stat for stat in stats} | {stat.tag: stat for stat in _derived(case, stats)}


def headline(case: Case) -> Stat | None:
    """The one number a case is known by: median latency, isolated where measured."""
    for regime in HEADLINE_ORDER:
        series = case.find("latency", regime)
        if series is not None and series.samples:
            return median(series)
    return None


def main_throughput(case: Case) -> Stat | None:
    """The throughput people mean: see `throughput_regime`."""
    rates = throughputs(case)
    regime = throughput_regime([rates], on_cpu=_on_cpu(case))
    return rates[regime] if regime else None


def throughput_regime(rates: list[dict[str, Stat]], *, on_cpu: bool) -> str | None:
    """The regime to tell the throughput of these cases in: saturated, where it was measured.

    On a CPU a call returns with its result, so back to back and one by one are the same work; where the
    long saturated blocks were too disturbed to tell, the regime with the narrower intervals speaks.

    Args:
        rates: one dict a case, throughput by regime.
    """
    if not rates:
        return None
    shared = [regime for regime in THROUGHPUT_ORDER if all(regime in own for own in rates)]
    if not shared or not on_cpu:
        return shared[0] if shared else None
    worst = {regime: max(_width(own[regime]) for own in rates) for regime in shared}
    return shared[0] if worst[shared[0]] <= SOUND else min(shared, key=lambda regime: worst[regime])


def throughputs(case: Case) -> dict[str, Stat]:
    """Throughput of a case by regime."""
    return {
        series.regime or "": throughput(series, batch=case.batch)
        for series in case.series
        if series.metric.tag == "latency" and series.samples
    }


def _on_cpu(case: Case) -> bool:
    return str(case.axes.get("device", "cpu")).startswith("cpu")


def _width(stat: Stat) -> float:
    return math.inf if stat.precision is None else stat.precision


def median(series: Series) -> Stat:
    """The median of one regime's calls, with its interval."""
    evidence = select(series)
    return _quantile_stat(series, evidence.values, "median", 0.5, _basis_note(evidence))


def latency(series: Series) -> list[Stat]:
    """Quantiles, mean, standard deviation and extremes of one regime's calls, with intervals."""
    evidence = select(series)
    values = evidence.values
    regime = series.regime or ""
    note = _basis_note(evidence)
    # A saturated sample is a whole block of calls: a mean of many has no tail to speak of.
    is_block = any(calls > 1 for calls in series.calls)
    wanted = {"median": 0.5} if is_block else QUANTILES
    stats = [_quantile_stat(series, values, name, q, note) for name, q in wanted.items()]
    for name, value, ci95 in (
        ("mean", float(values.mean()), _mean_interval(series)),
        ("std", float(values.std(ddof=1)) if len(values) > 1 else None, deviation_interval(values)),
        ("min", float(values.min()), None),
        ("max", float(values.max()), None),
    ):
        if is_block and name != "mean":
            continue
        stats.append(
            Stat(
                tag=f"latency/{regime}/{name}",
                title=f"{name} latency",
                unit="s",
                value=value,
                ci95=ci95,
                n=len(values),
                regime=series.regime,
                better="lower",
                note=note if value is not None else f"{name} needs 2 samples, has {len(values)}",
            )
        )
    return stats


def _quantile_stat(series: Series, values: Floats, name: str, q: float, note: str) -> Stat:
    ci95 = quantile_interval(series, q)
    value: float | None = quantile(values, q)
    needed = samples_needed(q)
    if ci95 is None and q != 0.5:
        have = math.floor(_worth(_by_process(series, select(series)), q))
        note = f"{name} needs {needed} samples, has {have}"
        value = None
    return Stat(
        tag=f"latency/{series.regime}/{name}",
        title=f"{name} latency",
        unit="s",
        value=value,
        ci95=ci95,
        n=len(values),
        regime=series.regime,
        better="lower",
        note=note,
    )


def quantile_interval(series: Series, q: float) -> tuple[float, float] | None:
    """95 % interval of a quantile, widened by how far whole processes lie apart.

    Samples of one process share its memory layout and its minutes, so several processes that disagree
    tell more about the error than the samples within one. Two processes: their own quantiles are
    enclosed. Three and more: Student's t on the logarithms of their quantiles.
    """
    evidence = select(series)
    parts = _by_process(series, evidence)
    pooled = interval(np.concatenate(parts), q, effective=_worth(parts, q))
    if pooled is None and q == 0.5:
        pooled = _whole_range(series, evidence)
    return _widened(pooled, [quantile(part, q) for part in parts])


def _whole_range(series: Series, evidence: Evidence) -> tuple[float, float] | None:
    """Where undisturbed samples are too few, or repeat each other too much, for an interval of the median:
    all that was seen since the level settled, disturbed samples too; None below six."""
    settled = np.asarray(series.samples)[evidence.settled]
    return (float(settled.min()), float(settled.max())) if len(settled) >= MIN_SAMPLES else None


def _mean_interval(series: Series) -> tuple[float, float] | None:
    """95 % interval of the mean time of a sample, widened likewise."""
    parts = _by_process(series, select(series))
    pooled = mean_interval(np.concatenate(parts), effective=_worth(parts, 0.5))
    return _widened(pooled, [float(part.mean()) for part in parts])


def _widened(pooled: tuple[float, float] | None, own: list[float]) -> tuple[float, float] | None:
    if pooled is None or len(own) < 2:
        return pooled
    low, high = min(own), max(own)
    if len(own) > 2 and low > 0:
        logs = np.log(own)
        half = t_quantile(0.975, len(own) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(own))
        low, high = math.exp(float(logs.mean()) - half), math.exp(float(logs.mean()) + half)
    return min(low, pooled[0]), max(high, pooled[1])


def _by_process(series: Series, evidence: Evidence) -> list[Floats]:
    """The samples that statistics use, one array a process."""
    if not series.process:
        return [evidence.values]
    process = np.asarray(series.process)[evidence.positions]
    return [evidence.values[process == p] for p in np.unique(process)]


def _worth(parts: list[Floats], q: float) -> float:
    """Independent samples for the q-quantile, counted within processes: their levels may differ."""
    return sum(effective_size(part, q) for part in parts)


def throughput(series: Series, *, batch: int) -> Stat:
    """Items per second: total work over total time, never a mean of reciprocals.

    The interval is that of the mean time of a call, turned over.
    """
    evidence = select(series)
    calls = np.asarray(series.calls or [1] * len(series.samples), dtype=float)[evidence.positions]
    per_call = evidence.values  # samples are seconds per call, also where one covers a block
    mean = float((per_call * calls).sum() / calls.sum())
    around = _mean_interval(series)
    ci95 = None
    if around is not None:
        half = (around[1] - around[0]) / 2
        ci95 = (batch / (mean + half), batch / (mean - half) if mean > half else math.inf)
    return Stat(
        tag=f"throughput/{series.regime}",
        title="throughput",
        unit="1/s",
        value=batch / mean,
        ci95=ci95,
        n=len(per_call),
        regime=series.regime,
        better="higher",
        note=_basis_note(evidence),
    )


def _single(series: Series) -> Stat:
    metric = series.metric
    return Stat(
        tag=_tag(series),
        title=metric.title,
        unit=metric.unit,
        value=series.samples[0],
        regime=series.regime,
        better=metric.better,
        note=series.note,
    )


def _several(series: Series) -> list[Stat]:
    values = select(series).values
    metric = series.metric
    return [
        Stat(
            tag=_tag(series),
            title=metric.title,
            unit=metric.unit,
            value=quantile(values, 0.5),
            ci95=interval(values, 0.5),
            n=len(values),
            regime=series.regime,
            better=metric.better,
            note=series.note,
        )
    ]


def _tag(series: Series) -> str:
    return f"{series.metric.tag}/{series.regime}" if series.regime else series.metric.tag


def _derived(case: Case, stats: list[Stat]) -> list[Stat]:
    """Achieved FLOP/s: counted FLOPs of one call over its time; and its share of the measured peak."""
    flops = next((stat for stat in stats if stat.tag == "flops"), None)
    rate = main_throughput(case)
    if flops is None or not flops.value or rate is None or not rate.value:
        return []
    per_item = flops.value / case.batch
    achieved = per_item * rate.value
    ends = (per_item * rate.ci95[0], per_item * rate.ci95[1]) if rate.ci95 else None
    found = [_rate_stat("flops/achieved", "achieved FLOP/s", achieved, ends, rate)]
    cores = case.details.get("physical_cores")
    if case.axes.get("device") != "cpu":
        cores = None
    elif not cores and (vcpus := case.details.get("usable_cpus")):
        # The hypervisor hides which CPUs share a core.
        ends_each = (ends[0] / vcpus, ends[1] / vcpus) if ends else None
        found.append(_rate_stat("flops/per_vcpu", "FLOP/s per vCPU", achieved / vcpus, ends_each, rate))
    if cores:
        per_core = (ends[0] / cores, ends[1] / cores) if ends else None
        found.append(
            _rate_stat("flops/per_core", "FLOP/s per physical core", achieved / cores, per_core, rate)
        )
    peak = case.details.get("peak", {}).get("flops")
    if peak:
        share = (ends[0] / peak, ends[1] / peak) if ends else None
        source = str(case.details["peak"].get("source", ""))
        found.append(
            Stat(
                tag="flops/share_of_peak",
                title="share of peak",
                unit="ratio",
                value=achieved / peak,
                ci95=share,
                n=rate.n,
                regime=rate.regime,
                better="higher",
                note=source,
            )
        )
    return found


def _rate_stat(tag: str, title: str, value: float, ci95: tuple[float, float] | None, rate: Stat) -> Stat:
    return Stat(
        tag=tag,
        title=title,
        unit="FLOP/s",
        value=value,
        ci95=ci95,
        n=rate.n,
        regime=rate.regime,
        better="higher",
    )


def _basis_note(evidence: Evidence) -> str:
    if evidence.basis == "undisturbed" and evidence.disturbed > 0:
        return f"{evidence.disturbed:.0%} disturbed samples excluded"
    if evidence.basis == "few":
        return f"{evidence.disturbed:.0%} disturbed samples excluded; few others are left"
    if evidence.basis == "settled":
        return f"{evidence.disturbed:.0%} of the samples disturbed, too few others to exclude them"
    if evidence.basis == "all":
        return "never settled: warm-up samples are in it"
    return ""
