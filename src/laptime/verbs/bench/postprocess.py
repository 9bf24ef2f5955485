"""The steps after measuring: labels, derived series, checks, comparisons, findings; what is remembered."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from laptime.analysis.architecture import architecture, same_models, work_of
from laptime.analysis.compare import compare_in_shared_regime, sentence
from laptime.analysis.evidence import best_of_ruler, select
from laptime.analysis.knee import KNEE, Knee, find_knee
from laptime.analysis.summary import headline, median, throughput_regime, throughput_regimes, throughputs
from laptime.kit import system_files
from laptime.kit.clock import Clock, SystemClock
from laptime.measure import checks, metrics
from laptime.measure.checks.growth import growth
from laptime.measure.labels import relabel
from laptime.probes.host_memory import PEAK
from laptime.records.case import Case
from laptime.records.check import Finding
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.series import Label, Regime, Series
from laptime.store import cache

FAULTS_PER_SECOND = 50_000
HOST_SHARE = 0.2  # share of a call from which host time is worth a word


def complete(case: Case, environment: Environment, plan: dict[str, Setting]) -> Case:
    """The case with labels, warm-up and compile cost, and the answers of all checks."""
    details = msgspec.structs.replace(case.details, usable_cpus=environment.usable_cpus)
    if environment.physical_cores:
        cores = min(environment.physical_cores, environment.usable_cpus)
        details = msgspec.structs.replace(details, physical_cores=cores)
    case = msgspec.structs.replace(case, details=details)
    case, _ = relabel(case, virtual=bool(environment.virtual))
    case = _with_costs(case)
    if (kept := growth(case)) and (peak := case.find(PEAK.tag)):
        case = _replace(
            case, msgspec.structs.replace(peak, note=f"after {kept.calls:,} calls, still growing")
        )
    if case.status == "failed":
        return case
    return msgspec.structs.replace(case, checks=checks.run_all(case, environment, plan))


def _with_costs(case: Case) -> Case:
    case = _with_cold_start(case)
    first = case.find(metrics.FIRST_CALL.tag)
    main = case.find("latency", Regime.ISOLATED) or case.find("latency", Regime.SATURATED)
    if first is None or main is None:
        return case
    process, warming = main.process or [0] * len(main.samples), int(Label.WARM_UP)
    rows = zip(main.samples, main.label, process, strict=True)
    warm = [seconds for seconds, bits, owner in rows if owner == process[0] and bits & warming]
    cost = first.samples[0] + sum(warm)
    note = f"first call and {len(warm)} more calls"
    case = _replace(case, Series(metric=metrics.WARM_UP, samples=[cost], probe="wall", note=note))
    stat = headline(case)
    is_told = case.find(metrics.COMPILE.tag) is not None
    if case.axes.get("compile") and not is_told and stat is not None and stat.value:
        seconds = max(0.0, first.samples[0] - stat.value)
        case = _replace(case, Series(metric=metrics.COMPILE, samples=[seconds], probe="wall"))
    return case


def _with_cold_start(case: Case) -> Case:
    """Add the time from nothing to the first answer, if every part of it was timed."""
    parts = [case.find(metric.tag) for metric in (metrics.IMPORT, metrics.LOAD, metrics.FIRST_CALL)]
    timed = [part for part in parts if part is not None and part.samples]
    if len(timed) < len(parts):
        return case
    seconds = sum(part.samples[0] for part in timed)
    return _replace(case, Series(metric=metrics.COLD_START, samples=[seconds], probe="wall"))


def _replace(case: Case, series: Series) -> Case:
    others = [other for other in case.series if other.key != series.key]
    return msgspec.structs.replace(case, series=[*others, series])


def comparisons(cases: list[Case]) -> list[Comparison]:
    """Every case against the first one that it can fairly be compared with.

    Cases of the same batch size: the first one of its architecture is the baseline, else the first target,
    dtype, ... of all. One target at several batch sizes: the first batch size is, and times are taken per
    item."""
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
    """The comparison; `unclear` if a side's number is invalid: wrong outputs, too fast ..."""
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

    largest: batch that fits, if a search has found its limit."""
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

    Nothing is said where other programs hit most calls, or where the intervals would allow less."""
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

    A fault takes 0.1 to 1 us, more on virtual machines: below 50 faults a millisecond it does not show."""
    counted, latency = case.find(metrics.PAGE_FAULTS.tag), headline(case)
    if counted is None or not counted.samples or latency is None or not latency.value or growth(case):
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


# Throughput of several batch sizes.


def knee(group: list[Case], *, largest: int | None) -> Finding | None:
    """The smallest batch that is nearly as good as the best, or between which sizes it lies; None below two.
    group: cases of one program that differ in their batch size alone; none that is invalid. largest: batch
    that fits, if that is known."""
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
    batch, sentence, advice = _say_knee(found, values, best, largest)
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


def _say_knee(
    found: Knee, values: dict[int, float], best: int, largest: int | None
) -> tuple[int | None, str, str]:
    top = max(values)
    if top != largest and (found.is_rising or found.batch == top):
        text = f"throughput still rises at batch {top} ({values[top]:,.4g} items/s), the largest measured"
        return None, f"{text}: no knee is shown", f"--batch {top},{2 * top},{4 * top}   goes on from there"
    if found.batch is None:
        sizes = found.candidates or [best]
        again = ",".join(map(str, sorted({*sizes, best})))
        if top in sizes and top != largest:
            text = f"whether throughput still rises at batch {top}, the largest measured, is unclear: "
            text += "no knee is shown"
        else:
            several = f"one of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
            between = several if len(sizes) > 1 else f"{sizes[0]} or a larger one"
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


# The ruler's best since the machine was booted: a run may lie within a slow hour as a whole. A scripted
# machine, whose clock is another, knows nothing and is not remembered.

_KIND = "ruler"


def best_known(clock: Clock) -> float | None:
    """Seconds of the known work at its best in all runs since boot; None if there was no such run."""
    seconds = (cache.get(_KIND, boot) or {}).get("seconds") if (boot := _boot(clock)) else None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def remember(cases: Iterable[Case], clock: Clock) -> None:
    known, boot = best_known(clock), _boot(clock)
    seen = [best for case in cases if (best := best_of_ruler(case)) is not None]
    if boot and seen and (known is None or min(seen) < known):
        cache.put(_KIND, boot, {"seconds": min(seen)})


def _boot(clock: Clock) -> str | None:
    return None if clock is not SystemClock else system_files.text(Path("/proc/sys/kernel/random/boot_id"))
