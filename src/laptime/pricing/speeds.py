"""The throughputs that a run has, of any kind of run, with the conditions under which each holds.

bench, suite   a case each: its throughput, or the highest that keeps a promise about latency
load           a level each: what was answered; the levels that keep a promise
others         that tell it: the highest rate that held a promise of their own (`records.load.AT_SLO`)
tune           the script as it is, and as it was tuned; both measured again
profile        the untraced step, if the run knows it, else the traced one

Of a language model whose answers were all counted the rate of a level is that of output tokens: reading
prompts is part of what they cost. Of anything else, and where an answer was not counted, it is that of
requests."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from laptime.analysis import tuned
from laptime.analysis.load import LevelStats, level_stats
from laptime.analysis.promises import ONE_BY_ONE, Promise, calls_judged, level_judged, text
from laptime.analysis.stat import Stat
from laptime.analysis.summary import headline, main_throughput, summarize
from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.records.case import AS_GIVEN, Case
from laptime.records.check import Trust, trust
from laptime.records.cost import Excluded, Speed, Unit
from laptime.records.load import AT_SLO
from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.records.scale import RATE
from laptime.records.tuning import Tuning

_NS = 1e9
_UNITS: tuple[Unit, ...] = ("call", "item", "sample", "step", "request", "token")


class NoCost(LaptimeError):
    """No cost is made of a run's numbers: they are invalid, or none is shown to keep the promise."""

    exit_code = ExitCode.UNDECIDED


class Speeds(NamedTuple):
    """The speeds of a run, and its cases that have none, with the reason."""

    speeds: list[Speed]
    excluded: list[Excluded]


def speeds(run: Run, *, wanted: Sequence[Promise] = (), samples_per_step: float | None = None) -> Speeds:
    """All throughputs of a run.
    wanted: only rates at which these promises are kept. samples_per_step: of a training whose run does not
    tell it.
    Raises NoCost: all that it has is invalid, or none of it is shown to keep the promise. UsageError: it has
    no throughput."""
    word, target = verdict(run), run.subjects[0].target if run.subjects else run.name or run.id
    if run.tuning is None and run.profile is None:
        made = _of_cases(run, wanted)
    elif word == "invalid":
        why = next((check.sentence for check in run.checks if check.outcome == "fail"), "its checks failed")
        made = Speeds([], [Excluded(case=target, reason=f"invalid: {why}")])
    elif run.tuning is not None:
        made = _of_tuning(run, run.tuning, target, word, samples_per_step)
    else:
        made = _of_profile(run, target, word, samples_per_step)
    if not made.speeds:
        raise _nothing(run, made.excluded, wanted)
    return made


def verdict(run: Run) -> Trust:
    """The verdict of a run that may have no cases: what its checks say, trusted without any."""
    return run.trust if run.cases else trust(run.checks)


def _nothing(run: Run, excluded: list[Excluded], wanted: Sequence[Promise]) -> LaptimeError:
    reasons = "; ".join(dict.fromkeys(f"{each.reason}" for each in excluded)) or "it measured no time"
    if excluded and all(each.reason.startswith("invalid") for each in excluded):
        return NoCost(
            f"the numbers of run {run.id} are invalid, so they have no cost",
            why=reasons,
            next=f"laptime show {run.id}",
        )
    if run.cases and (wanted or run.cases[0].details.slo):
        promised = text(wanted) if wanted else run.cases[0].details.slo
        return NoCost(
            f"no case of run {run.id} is shown to keep {promised}",
            why=reasons,
            next="measure answers at a rate: --batch 1 --rate 20"
            if run.verb != "load"
            else "load it for longer: --duration auto --budget 10m"
            if "independent requests" in reasons
            else "load it again at other rates: --rate 5,10,20",
        )
    return UsageError(
        f"run {run.id} has no throughput", why=reasons, next=f"laptime show {run.id}   shows what it has"
    )


# Cases.


def _of_cases(run: Run, wanted: Sequence[Promise]) -> Speeds:
    made: list[Speed] = []
    excluded: list[Excluded] = []
    for case in run.cases:
        speed, reason = _of_case(run, case, wanted)
        if speed is None:
            excluded.append(Excluded(case=case.key, reason=reason))
        else:
            made.append(speed)
    units = {speed.unit for speed in made}
    if units == {"call", "item"}:  # beside batches, a call of one is an item
        made = [structs.replace(speed, unit="item") for speed in made]
    return Speeds(made, excluded)


def _unusable(case: Case) -> str:
    if case.status in ("failed", "skipped"):
        return f"{case.status}: {case.failure.what}" if case.failure else case.status
    if case.trust == "invalid":
        why = next((check.sentence for check in case.checks if check.outcome == "fail"), case.status)
        return f"invalid: {why}"
    return ""


def _of_case(run: Run, case: Case, wanted: Sequence[Promise]) -> tuple[Speed | None, str]:
    """The speed of one case, or why it has none."""
    if reason := _unusable(case):
        return None, reason
    stats = summarize(case, run.constants)
    if (held := stats.get(AT_SLO)) is not None:
        if held.value is None or held.value <= 0:
            return None, f"no rate held {case.details.slo or 'its promise'}"
        return _speed(run, case, stats, held, at=case.details.slo or "its promise"), ""
    if case.details.load is not None:
        return _of_level(run, case, stats, wanted)
    if wanted:
        # The highest of its rates that keeps the promise.
        best: tuple[Stat, float] | None = None
        reasons = []
        for regime in ONE_BY_ONE:
            rate = stats.get(f"throughput/{regime}")
            if rate is None or not rate.value:
                continue
            judged = calls_judged(wanted, stats, regime)
            if judged.word != "kept":
                reasons.append(f"{regime}: {judged.sentence}")
            elif judged.value is not None and (best is None or rate.value > (best[0].value or 0.0)):
                best = rate, judged.value
        if best is None:
            return None, "; ".join(reasons) or "no call was timed one by one"
        how = ", one call at a time" if best[0].regime == "isolated" else ""
        return _speed(run, case, stats, best[0], at=text(wanted) + how, tail=best[1]), ""
    rate = main_throughput(case, run.constants) or stats.get(RATE.tag)
    if rate is None or not rate.value:
        return None, "no throughput was measured"
    trains = case.axes.get("train") or case.details.ranks
    at = {"paced": "a given rate"}.get(rate.regime or "", "training" if trains else "saturation")
    return _speed(run, case, stats, rate, at=at), ""


def _speed(
    run: Run,
    case: Case,
    stats: dict[str, Stat],
    rate: Stat,
    *,
    at: str,
    tail: float | None = None,
    median: Stat | None = None,
) -> Speed:
    median = median or headline(case, run.constants)
    if (known := case.details.ranks) and known.machines > 1:  # each of them has its price
        rate = rate.scale(rate.tag, rate.title, 1 / known.machines, unit=rate.unit)
        at = f"{at}, a share of {known.machines} machines"
    unit: Unit = next((unit for unit in _UNITS if unit == case.details.unit), _unit(case))
    threads = case.axes.get("threads")
    memory = {place: stats.get(f"memory/{place}/peak") for place in ("host", "device")}
    # What tells a case from the others of its run.
    others = [other for other in run.cases if other is not case]
    names = [name for name in case.axes if any(other.axes.get(name) != case.axes[name] for other in others)]
    words = [f"{name} {case.axes[name]}" for name in names if name != "again"]
    if any(other.target != case.target for other in others):
        words.insert(0, case.target)
    return Speed(
        run=run.id,
        case=case.key,
        label=", ".join(words) or case.target,
        target=case.target,
        axes=case.axes,
        unit=unit,
        rate=rate.value or 0.0,
        ci95=rate.ci95,
        at=at,
        latency=median.value if median else None,
        latency_ci95=median.ci95 if median else None,
        tail=tail,
        verdict=case.trust,
        batch=float(case.batch),
        threads=threads if isinstance(threads, int) else None,
        instances=case.instances,
        device=str(case.axes.get("device", "cpu")),
        host_memory=memory["host"].value if memory["host"] else None,
        device_memory=memory["device"].value if memory["device"] else None,
    )


def _unit(case: Case) -> Unit:
    if case.axes.get("train"):
        return "sample"
    return "call" if case.batch == 1 or case.axes.get("batch") == AS_GIVEN else "item"


# Training runs.


def _of_tuning(run: Run, tuning: Tuning, target: str, word: Trust, samples_per_step: float | None) -> Speeds:
    outcome = tuned.outcome(run)
    word = "noisy" if outcome in ("unclear", "gate undecided") else word
    made, excluded = [], []
    for label, measured in (("as it is", tuning.baseline), ("tuned", tuning.final)):
        if measured is None or measured.step <= 0:
            excluded.append(Excluded(case=label, reason=f"it was not measured again ({outcome})"))
        elif label == "tuned" and outcome in ("gate failed", "patch fails"):
            excluded.append(Excluded(case=label, reason=f"invalid: {outcome}, it is not the same training"))
        else:
            told = measured.throughput * measured.step
            batch = samples_per_step or (told if told > 1.5 else None)
            speed = _step_speed(
                run,
                case=label,
                target=target,
                seconds=Quantity.of(measured.step, measured.ci95, unit="s"),
                batch=batch,
                verdict=word,
                peak=measured.peak,
            )
            made.append(structs.replace(speed, unit="item") if tuning.model else speed)
    return Speeds(made, excluded)


def _of_profile(run: Run, target: str, word: Trust, samples_per_step: float | None) -> Speeds:
    profile = run.profile
    assert profile is not None
    known = profile.reconciled
    if known is not None and known.untraced_ns > 0:
        label, step = "untraced step", Quantity.of(known.untraced_ns, known.untraced_ci95_ns)
    elif profile.overview.step_median_ns > 0:
        # A profiler slows a step down: this cost is an upper bound, and no better than noisy.
        label, step = "step under the profiler", Quantity(profile.overview.step_median_ns)
        word = "noisy"
    else:
        return Speeds([], [Excluded(case=target, reason="it has no steps")])
    speed = _step_speed(
        run,
        case=label,
        target=target,
        seconds=step.scale(1 / _NS, "s"),
        batch=samples_per_step,
        verdict=word,
        peak=next((memory.peak for memory in profile.memory if memory.device != "cpu"), None),
    )
    return Speeds([structs.replace(speed, instances=profile.world or 1, device=profile.device_type)], [])


def _step_speed(
    run: Run,
    *,
    case: str,
    target: str,
    seconds: Quantity,
    batch: float | None,
    verdict: Trust,
    peak: float | None,
) -> Speed:
    """Return the speed of steps with so many samples; None: their number is not known."""
    device = next((each.name for each in run.environment.devices if each.name != "cpu"), "cpu")
    memory = None if peak is None else float(peak)
    rate = seconds.invert(batch or 1.0, "1/s")
    return Speed(
        run=run.id,
        case=case,
        label=case,
        target=target,
        unit="sample" if batch else "step",
        rate=rate.value,
        ci95=rate.interval,
        at="training",
        latency=seconds.value,
        latency_ci95=seconds.interval,
        verdict=verdict,
        batch=batch or 1.0,
        device=device,
        host_memory=memory if device == "cpu" else None,
        device_memory=memory if device != "cpu" else None,
    )


# Levels of load.


def _of_level(
    run: Run, case: Case, stats: dict[str, Stat], wanted: Sequence[Promise]
) -> tuple[Speed | None, str]:
    """The rate that a level answered, if it kept the promises; else why that has no price."""
    level = level_stats(case)
    if level is None or not level.answered.value:
        return None, "no request was answered"
    users, tail = level.facts.concurrency, None
    at = f"{users} user{'' if users == 1 else 's'}" if level.facts.kind == "closed" else "a given rate"
    at = "saturation" if level.balance.grows else at
    if wanted:
        judged = level_judged(wanted, level)
        if judged.word != "kept":
            return None, judged.sentence
        at, tail = text(wanted), judged.value
    rate, unit = _rate(level)
    speed = _speed(run, case, stats, rate, at=at, tail=tail, median=level.latency["median"])
    return structs.replace(speed, unit=unit), ""


def _rate(level: LevelStats) -> tuple[Stat, Unit]:
    """Units per second of a level: of answered requests, or of the tokens in them if all were counted."""
    per_answer = level.tokens.per_answer if level.tokens else None
    if level.answered.quantity is None or per_answer is None or not per_answer.value:
        return level.answered, "request"
    rate = level.answered.quantity.divide(per_answer.invert(), "1/s")
    return structs.replace(level.answered, quantity=rate), "token"
