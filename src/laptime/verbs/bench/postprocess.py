"""What follows the measuring: labels, derived series, checks, comparisons, findings. Pure functions."""

from __future__ import annotations

import msgspec

from laptime.analysis.architecture import architecture, same_models, work_of
from laptime.analysis.compare import compare_in_shared_regime, sentence
from laptime.analysis.evidence import select
from laptime.analysis.summary import headline, median
from laptime.measure import checks, metrics
from laptime.measure.labels import relabel
from laptime.records.case import Case
from laptime.records.check import Finding
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.series import Label, Regime, Series
from laptime.verbs.bench.knee import knee

FAULTS_PER_SECOND = 50_000

HOST_SHARE = 0.2
"""Share of a call from which host time is worth a word."""


def completed(case: Case, environment: Environment, plan: dict[str, Setting]) -> Case:
    """The case with labels, warm-up and compile cost, and the answers of all checks."""
    case, _ = relabel(case, virtual=bool(environment.virtual))
    case = _with_costs(case)
    details = msgspec.structs.replace(case.details, usable_cpus=environment.usable_cpus)
    if environment.physical_cores:
        cores = min(environment.physical_cores, environment.usable_cpus)
        details = msgspec.structs.replace(details, physical_cores=cores)
    case = msgspec.structs.replace(case, details=details)
    if case.status == "failed":
        return case
    return msgspec.structs.replace(case, checks=checks.run_all(case, environment, plan))


def _with_costs(case: Case) -> Case:
    case = _with_cold_start(case)
    first = case.find(metrics.FIRST_CALL.tag)
    main = case.find("latency", Regime.ISOLATED) or case.find("latency", Regime.SATURATED)
    if first is None or main is None:
        return case
    process = main.process or [0] * len(main.samples)
    warm = [
        seconds
        for seconds, bits, owner in zip(main.samples, main.label, process, strict=True)
        if owner == process[0] and bits & Label.WARM_UP
    ]
    cost = first.samples[0] + sum(warm)
    note = f"first call and {len(warm)} more calls"
    case = _replaced(case, Series(metric=metrics.WARM_UP, samples=[cost], probe="wall", note=note))
    stat = headline(case)
    is_told = case.find(metrics.COMPILE.tag) is not None
    if case.axes.get("compile") and not is_told and stat is not None and stat.value:
        seconds = max(0.0, first.samples[0] - stat.value)
        case = _replaced(case, Series(metric=metrics.COMPILE, samples=[seconds], probe="wall"))
    return case


def _with_cold_start(case: Case) -> Case:
    """With the time from nothing to the first answer, where every part of it was timed."""
    parts = [case.find(metric.tag) for metric in (metrics.IMPORT, metrics.LOAD, metrics.FIRST_CALL)]
    timed = [part for part in parts if part is not None and part.samples]
    if len(timed) < len(parts):
        return case
    seconds = sum(part.samples[0] for part in timed)
    return _replaced(case, Series(metric=metrics.COLD_START, samples=[seconds], probe="wall"))


def _replaced(case: Case, series: Series) -> Case:
    others = [other for other in case.series if other.key != series.key]
    return msgspec.structs.replace(case, series=[*others, series])


def comparisons(cases: list[Case]) -> list[Comparison]:
    """Every case against the first one that it can fairly be compared with.

    Cases of the same batch size: the first one of its architecture is the baseline, else the first target,
    dtype, ... of all. One target at several batch sizes: the first batch size is, and times are taken per
    item.
    """
    measured = [case for case in cases if case.status != "failed"]
    compared = []
    for index, case in enumerate(measured):
        earlier = [c for c in measured[:index] if work_of(c) == work_of(case)]
        alike = [c for c in earlier if c.batch == case.batch]
        name = architecture(case.target)
        fair = [c for c in alike if architecture(c.target) == name] or alike
        fair = fair or [c for c in earlier if _variant(c) == _variant(case)]
        if not fair:
            continue
        baseline = fair[0]
        comparison = compare_in_shared_regime(baseline, case)
        if comparison is not None:
            compared.append(without_invalid_winner(comparison, baseline, case))
    return compared


def without_invalid_winner(comparison: Comparison, *sides: Case) -> Comparison:
    """The comparison; `unclear` where a side's number is invalid: wrong outputs, too fast ..."""
    wrong = next((check for side in sides for check in side.checks if check.outcome == "fail"), None)
    if wrong is None or comparison.word == "unclear":
        return comparison
    text = sentence("unclear", comparison.speedup, comparison.ci95, comparison.margin)
    return msgspec.structs.replace(comparison, word="unclear", sentence=f"{text}; {wrong.sentence}")


def _variant(case: Case) -> tuple[object, ...]:
    return (case.target, *((name, value) for name, value in case.axes.items() if name != "batch"))


def findings(cases: list[Case], *, largest: int | None = None) -> list[Finding]:
    """Findings: the batch knee, different models of one name, host-bound calls, page faults.

    Nothing is found in cases that are invalid.

    Args:
        largest: batch that fits, where a search has found its limit.
    """
    result = same_models([case for case in cases if case.status != "failed"])
    sound = [case for case in cases if case.status == "ok" and case.trust != "invalid"]
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in sound:
        groups.setdefault(_variant(case), []).append(case)
    result += [each for group in groups.values() if (each := knee(group, largest=largest)) is not None]
    result += [finding for case in sound if (finding := _host_bound(case)) is not None]
    result += [finding for case in sound if (finding := _page_faults(case)) is not None]
    return result


def _host_bound(case: Case) -> Finding | None:
    """Isolated latency beyond the device's own time is the host's: launching, Python, synchronising.

    Nothing is said where other programs hit most calls, or where the intervals would allow less.
    """
    on_device, alone = case.find("latency", Regime.DEVICE), case.find("latency", Regime.ISOLATED)
    if on_device is None or alone is None or not on_device.samples or not alone.samples:
        return None
    device, isolated = median(on_device), median(alone)
    if not device.value or not isolated.value or select(alone).crowded:
        return None
    slowest, fastest = (device.ci95 or (0.0, device.value))[1], (isolated.ci95 or (isolated.value, 0.0))[0]
    if 1 - slowest / fastest < HOST_SHARE:
        return None
    share = 1 - device.value / isolated.value
    return Finding(
        kind="latency/host_bound",
        severity="advice",
        sentence=f"the device works for {1 - share:.0%} of an isolated call; the rest is host time",
        evidence={"device": device.value, "isolated": isolated.value},
        next="--compile reduce-overhead   (CUDA graphs), or a larger batch",
        cases=[case.key],
    )


def _page_faults(case: Case) -> Finding | None:
    """An allocator that gives memory back after every call has it mapped and zeroed anew in the next.

    A fault takes 0.1 to 1 us, more on virtual machines: below 50 faults a millisecond it does not show.
    """
    counted, latency = case.find(metrics.PAGE_FAULTS.tag), headline(case)
    if counted is None or not counted.samples or latency is None or not latency.value:
        return None
    faults = counted.samples[0]
    if case.axes.get("device") != "cpu" or faults / latency.value < FAULTS_PER_SECOND:
        return None
    mapped = faults * 4096 / 2**20
    return Finding(
        kind="memory/page_faults",
        severity="advice",
        sentence=f"batch {case.batch}: every call makes {faults:,.0f} page faults "
        f"({mapped:,.0f} MiB mapped anew): the allocator gives memory back after each call",
        evidence={"page_faults": faults, "latency": latency.value},
        next="MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 laptime bench ..."
        "   (glibc then keeps it)",
        cases=[case.key],
    )
