"""Turn raw samples into the numbers people read, each with unit, regime, n and a 95 % interval.

Tags: `latency/<regime>/<statistic>`, `throughput/<regime>`, and the series' own tag for everything that is
measured once (`memory/host/peak`, `params/all`, `flops`, `time/first_call`)."""

import math

import numpy as np
from msgspec import structs

from laptime.analysis import quantiles
from laptime.analysis.achieved import list_rates, token_rate
from laptime.analysis.evidence import MIN_SAMPLES, Evidence, find_lost_share, select
from laptime.analysis.open_loop import OpenLoop, open_loop
from laptime.analysis.paired import of_processes
from laptime.analysis.quantiles import Floats, effective_size, interval, mean_interval, quantile
from laptime.analysis.stat import Stat
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.load import ANSWERED
from laptime.records.plan import TODAY, Constants
from laptime.records.quantity import Quantity
from laptime.records.scale import RATE
from laptime.records.series import HEADLINE_ORDER, THROUGHPUT_ORDER, Regime, Series

REPORTED = "reported/"  # tags of numbers that a benchmark reported itself, one value a trial, begin with this
QUANTILES: dict[str, float] = {"median": 0.5, "p5": 0.05, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def summarize(case: Case, constants: Constants = TODAY) -> dict[str, Stat]:
    """All statistics of a case by tag, in the order people want them."""
    stats: list[Stat] = []
    rates = throughputs(case, constants)
    for series in case.samples:
        if not series.samples or series.metric.tag.startswith("disturbance/"):
            continue
        if series.metric.tag == "latency":
            load = open_loop(case) if series.regime == Regime.PACED else None
            evidence = select(series, constants)
            told = latency(series, evidence)
            stats += [_if_served(load, _spare(case, series, stat, evidence)) for stat in told]
            stats += [rates[series.regime or ""]] if rates else []
        else:
            stats.append(_bound_count(case, _of_metric(series, constants)))
    flops = next((stat for stat in stats if stat.tag == "flops"), None)
    rate = main_throughput(case, constants, rates)
    stats += list_rates(case, flops, rate, constants)
    stats += token_rate(case, rate)
    return {stat.tag: stat for stat in stats}


def _bound_count(case: Case, stat: Stat) -> Stat:
    """A count of work as a lower bound, if its receipt says that something was left out."""
    receipt = case.details.receipt
    if stat.tag not in ("macs", "flops") or receipt.complete:
        return stat
    missing = ", ".join(receipt.doubtful)
    return structs.replace(stat, at_least=True, note=f"not counted: {missing}" if missing else "incomplete")


def headline(case: Case, constants: Constants = TODAY) -> Stat | None:
    """The one number a case is known by: median latency, isolated if measured."""
    for regime in HEADLINE_ORDER:
        series = case.find("latency", regime)
        if series is not None and series.samples:
            return median_of(case, series, constants)
    return None


def main_throughput(
    case: Case, constants: Constants = TODAY, rates: dict[str, Stat] | None = None
) -> Stat | None:
    """The throughput people mean: see `throughput_regime`. rates: those of the case, if they are known."""
    rates = throughputs(case, constants) if rates is None else rates
    on_cpu = str(case.axes.get("device", "cpu")).startswith("cpu")
    regime = throughput_regime([rates] if rates else [], on_cpu=on_cpu, constants=constants)
    return rates[regime] if regime else None


def throughput_regime(
    rates: list[dict[str, Stat]], *, on_cpu: bool, constants: Constants = TODAY
) -> str | None:
    """The regime whose throughput is shown for these cases: saturated, if it was measured.

    On a CPU a call returns with its result, so calls back to back and one by one do the same work. Where the
    long saturated blocks were too disturbed, the regime is taken in which the fewest cases rest on disturbed
    samples, and of those the one with the narrowest intervals.

    rates: one dict a case, throughput by regime."""
    if not rates:
        return None
    shared = [regime for regime in THROUGHPUT_ORDER if all(regime in case_rates for case_rates in rates)]
    if not shared or not on_cpu:
        return shared[0] if shared else None
    unsound = {}
    for regime in shared:
        told = [rate[regime] for rate in rates]
        width = max(math.inf if each.precision is None else each.precision for each in told)
        unsound[regime] = sum(each.crowded for each in told), width
    crowded, width = unsound[shared[0]]
    is_sound = not crowded and width <= constants.sound_throughput
    return shared[0] if is_sound else min(shared, key=lambda regime: unsound[regime])


def throughput_regimes(
    rates: list[dict[str, Stat]], *, on_cpu: bool, constants: Constants = TODAY
) -> list[str | None]:
    """The regime of each case's throughput: the shared one, else, if its number there rests on disturbed
    samples, the soundest of its own; None if it has none.
    rates: as for `throughput_regime`; empty ones have no say in what is shared."""
    shared = throughput_regime([rate for rate in rates if rate], on_cpu=on_cpu, constants=constants)
    return [
        shared
        if shared in rate and not rate[shared].crowded
        else throughput_regime([rate] if rate else [], on_cpu=on_cpu, constants=constants)
        for rate in rates
    ]


def throughputs(case: Case, constants: Constants = TODAY) -> dict[str, Stat]:
    """Throughput of a case by regime; none if it was counted, not derived."""
    if case.find(ANSWERED.tag) is not None:
        return {}
    return {
        series.regime or "": _throughput(case, series, constants)
        for series in case.samples
        if series.metric.tag == "latency" and series.samples
    }


def median_of(case: Case, series: Series, constants: Constants = TODAY) -> Stat:
    """The same of a case's series: without a value where paced calls came faster than they can be served."""
    load = open_loop(case) if series.regime == Regime.PACED else None
    evidence = select(series, constants)
    return _if_served(load, _spare(case, series, _quantile_stat(series, evidence, "median", 0.5), evidence))


def median(series: Series, constants: Constants = TODAY) -> Stat:
    """The median of one regime's calls, with its interval."""
    return _quantile_stat(series, select(series, constants), "median", 0.5)


def latency(series: Series, evidence: Evidence) -> list[Stat]:
    """Quantiles, mean, standard deviation and extremes of one regime's calls, with intervals."""
    values = evidence.values
    mean = _latency_stat(series, evidence, "mean", float(values.mean()), _mean_interval(evidence.parts))
    if any(calls > 1 for calls in series.calls):
        # A saturated sample is a whole block of calls: a mean of many has no tail to speak of.
        return [_quantile_stat(series, evidence, "median", 0.5), mean]
    std = float(values.std(ddof=1)) if len(values) > 1 else None
    return [
        *(_quantile_stat(series, evidence, name, q) for name, q in QUANTILES.items()),
        mean,
        _latency_stat(series, evidence, "std", std, quantiles.deviation_interval(values), needed=2),
        _latency_stat(series, evidence, "min", float(values.min())),
        _latency_stat(series, evidence, "max", float(values.max())),
    ]


def _latency_stat(
    series: Series,
    evidence: Evidence,
    name: str,
    value: float | None,
    ci95: tuple[float, float] | None = None,
    *,
    needed: int = 1,
    worth: int | None = None,
) -> Stat:
    """A statistic of latencies. needed, worth: samples that it needs and how many there are, for the note
    when it has no value."""
    n = len(evidence.values)
    have = n if worth is None else worth
    tag, title = f"latency/{series.regime}/{name}", f"{name} latency"
    exact = name in ("min", "max")
    quantity = None if value is None else Quantity.of(value, ci95, n, "s", exact=exact)
    note = _basis_note(evidence) if value is not None else f"{name} needs {needed} samples, has {have}"
    return Stat(tag, title, "s", quantity, n, series.regime, "lower", note, evidence.crowded)


def _quantile_stat(series: Series, evidence: Evidence, name: str, q: float) -> Stat:
    worth = _worth(evidence.parts, q)
    ci95 = quantile_interval(series, q, evidence, worth)
    if ci95 is None and q != 0.5:
        needed = quantiles.samples_needed(q)
        return _latency_stat(series, evidence, name, None, needed=needed, worth=math.floor(worth))
    return _latency_stat(series, evidence, name, quantile(evidence.values, q), ci95)


def quantile_interval(
    series: Series, q: float, evidence: Evidence | None = None, worth: float | None = None
) -> tuple[float, float] | None:
    """95 % interval of a quantile, widened by how far whole processes lie apart.

    Samples of one process share its memory layout and its minutes, so several processes that disagree tell
    more about the error than the samples within one. Two processes: their own quantiles are enclosed. Three
    and more: Student's t on the logarithms of their quantiles. worth: independent samples, if known."""
    evidence = evidence or select(series)
    pooled = interval(evidence.values, q, effective=worth or _worth(evidence.parts, q))
    if pooled is None and q == 0.5 and len(evidence.settled) >= MIN_SAMPLES:
        # Undisturbed samples are too few, or repeat each other too much: the range of all settled ones.
        settled = np.asarray(series.samples)[evidence.settled]
        pooled = float(settled.min()), float(settled.max())
    return pooled and _widen(pooled, [quantile(part, q) for part in evidence.parts])


def _mean_interval(parts: list[Floats]) -> tuple[float, float] | None:
    """95 % interval of the mean time of a sample, widened likewise."""
    worth = sum(quantiles.effective_size_of_mean(part) for part in parts)
    pooled = mean_interval(np.concatenate(parts), effective=worth)
    return _widen(pooled, [float(part.mean()) for part in parts])


def _widen(pooled: tuple[float, float] | None, by_process: list[float]) -> tuple[float, float] | None:
    if pooled is None or len(by_process) < 2:
        return pooled
    low, high = min(by_process), max(by_process)
    if len(by_process) > 2 and low > 0:
        logs = np.log(by_process)
        half = t_quantile(0.975, len(by_process) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(by_process))
        low, high = math.exp(float(logs.mean()) - half), math.exp(float(logs.mean()) + half)
    return min(low, pooled[0]), max(high, pooled[1])


def _worth(parts: list[Floats], q: float) -> float:
    """Independent samples for the q-quantile, counted within processes: their levels may differ."""
    return sum(effective_size(part, q) for part in parts)


def _if_served(load: OpenLoop | None, stat: Stat) -> Stat:
    """The latency; without a value if calls came faster than they can be served: it grows with time."""
    if load is None or load.balance != "broken":
        return stat
    came = f"{load.rate:.4g} calls/s came, {load.capacity.value:.4g} can be served"
    return stat.without(f"{came}: it grows as long as they come")


def _throughput(case: Case, series: Series, constants: Constants) -> Stat:
    load = open_loop(case) if series.regime == Regime.PACED else None
    evidence = select(series, constants)
    rate = throughput(series, evidence, batch=case.items)
    # Items per second; of paced calls what was served, not what one call after the other would give.
    stat = _bound_below(_spare(case, series, rate, evidence))
    if load is None:
        return stat
    note = f"{load.rate:.4g} calls/s came, {load.capacity.value:.4g} can be served"
    return structs.replace(stat, quantity=load.served.scale(case.items), note=note)


def _bound_below(rate: Stat) -> Stat:
    """A rate whose interval has no upper end is told by its lower one: a few long calls, which may have come
    from outside, make their mean, and nothing says how much faster it is without them."""
    if rate.quantity is None or rate.ci95 is None or not math.isinf(rate.ci95[1]):
        return rate
    note = "; ".join(filter(None, [rate.note, "a few long samples leave its upper end open"]))
    low = Quantity.of(rate.ci95[0], rate.ci95, rate.n, rate.unit)
    return structs.replace(rate, quantity=low, at_least=True, note=note)


def _spare(case: Case, series: Series, stat: Stat, evidence: Evidence) -> Stat:
    """With an interval that reaches as far as the speed without what disturbed samples lost, where they had
    to be used for want of others."""
    if stat.quantity is None or stat.ci95 is None:
        return stat
    if evidence.basis != "settled" or series.regime == Regime.PACED:
        return stat
    kept = 1 - find_lost_share(case, series, evidence)
    low, high = stat.ci95
    ends = (low, high / kept if kept else math.inf) if stat.better == "higher" else (low * kept, high)
    return structs.replace(stat, quantity=Quantity.of(stat.quantity.value, ends, stat.n, stat.unit))


def throughput(series: Series, evidence: Evidence | None = None, *, batch: int) -> Stat:
    """Items per second: total work over total time, never a mean of reciprocals.

    The interval is that of the mean time of a call, turned over."""
    evidence = evidence or select(series)
    calls = np.asarray(series.calls or [1] * len(series.samples), dtype=float)[evidence.positions]
    per_call = evidence.values  # samples are seconds per call, also if one covers a block
    mean = float((per_call * calls).sum() / calls.sum())
    around = _mean_interval(evidence.parts)
    ci95 = None
    if around is not None:
        half = (around[1] - around[0]) / 2
        ci95 = (batch / (mean + half), batch / (mean - half) if mean > half else math.inf)
    tag, n, note = f"throughput/{series.regime}", len(per_call), _basis_note(evidence)
    quantity = Quantity.of(batch / mean, ci95, n, "1/s")
    return Stat(tag, "throughput", "1/s", quantity, n, series.regime, "higher", note, evidence.crowded)


def _of_metric(series: Series, constants: Constants) -> Stat:
    """A number that was measured once, the mean of what trials reported, or the median of several."""
    metric = series.metric
    if metric.tag.startswith(REPORTED):
        trials = quantiles.over_trials(series.samples)
        quantity, n = structs.replace(trials.quantity, unit=metric.unit), len(series.samples)
        made = Stat(metric.tag, metric.title, metric.unit, quantity, n)
        return structs.replace(made, better=metric.better, note=trials.statistic)
    if metric.tag == RATE.tag:
        own = of_processes(series.samples, metric.unit)
        return Stat(metric.tag, metric.title, metric.unit, own, own.n, better=metric.better)
    values = select(series, constants).values if len(series.samples) > 1 else None
    n = 1 if values is None else len(values)
    value = series.samples[0] if values is None else quantile(values, 0.5)
    ends = None if values is None else interval(values, 0.5)
    tag = f"{metric.tag}/{series.regime}" if series.regime else metric.tag
    quantity = Quantity.of(value, ends, n, metric.unit, exact=ends is None)
    return Stat(tag, metric.title, metric.unit, quantity, n, series.regime, metric.better, series.note)


def _basis_note(evidence: Evidence) -> str:
    share = f"{evidence.disturbed:.0%}"
    return {
        "undisturbed": f"{share} disturbed samples excluded" if evidence.disturbed > 0 else "",
        "few": f"{share} disturbed samples excluded; few others are left",
        "settled": f"{share} of the samples disturbed, too few others to exclude them",
        "all": "never settled: warm-up samples are in it",
    }[evidence.basis]
