"""`compare`: two stored runs, case by case, in words."""

import math
from collections.abc import Sequence

from msgspec import structs

from laptime.analysis.between_runs import Spread, between_runs
from laptime.analysis.compare import describe
from laptime.analysis.evidence import select
from laptime.analysis.paired import Effect
from laptime.analysis.quantiles import quantile
from laptime.analysis.summary import quantile_interval
from laptime.kit.errors import UsageError
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.environment import differences
from laptime.records.run import Run
from laptime.records.series import COMPARISON_ORDER, SHORTEST, Series
from laptime.verbs.bench.postprocess import without_invalid_winner

BETWEEN_RUNS = 0.02
"""Standard deviation, as a share, assumed between two runs of one program at different times.

Runs that were not interleaved do not share the machine's drift; their samples do not show how large
it was."""
BETWEEN_RUNS_VIRTUAL = 0.15
"""The same on a virtual machine: its guest cannot see who else uses the cores it runs on.

On a shared two-core guest one program was seen to run for minutes at one of two speeds 1.4 apart, without
run delay or steal in either (docs/measurements.md)."""
DF_APART = 6.0  # degrees of freedom of a difference between two runs, about: neither error is well known


def compare_runs(a: Run, b: Run, force: bool = False, *, earlier: Sequence[Run] = ()) -> list[Comparison]:
    """Compare the cases that two runs share (or, with one case each, these two), `a` as the baseline.
    earlier: stored runs of this machine; where enough of them repeat each other, they tell how far apart two
    runs lie, and a constant stands in for that where not.
    Raises UsageError: one is a profile; both are the same run; the runs come from different machines,
    libraries or settings and `force` is not set; or they share no case."""
    refuse_profiles(a, b)
    if a.id == b.id:
        why, next = "both sides name this run", "laptime compare last~1 last   (laptime list shows all runs)"
        raise UsageError(f"run {a.id} cannot be compared with itself", why=why, next=next)
    phrases = differences(a.environment, b.environment)
    if phrases and not force:
        raise UsageError(
            "these two runs were not made under the same conditions",
            why="; ".join(phrases[:6]) + (f"; {len(phrases) - 6} more" if len(phrases) > 6 else ""),
            next="--force   compares them all the same",
        )
    pairs = shared_cases(a, b)
    if not pairs:
        next = "laptime bench A B   measures both, interleaved"
        raise UsageError("these two runs share no case", why=f"{_keys(a)} against {_keys(b)}", next=next)
    between = spread_between(a, b, earlier)
    compared = [(pair, _compare(*pair, between=between)) for pair in pairs]
    return [
        without_invalid_winner(comparison, *pair) for pair, comparison in compared if comparison is not None
    ]


def spread_between(a: Run, b: Run, earlier: Sequence[Run] = ()) -> Spread:
    """How far two runs of one program lie apart on this machine: as earlier runs tell, else as is assumed."""
    virtual = bool(a.environment.virtual or b.environment.virtual)
    assumed = Spread(BETWEEN_RUNS_VIRTUAL if virtual else BETWEEN_RUNS, DF_APART, "are taken to lie")
    return between_runs(earlier, a, b) or assumed


def refuse_profiles(*runs: Run) -> None:
    """Refuse profiles: they are compared part by part, not by one latency.
    Raises UsageError: one of the runs is a profile; says what compares them."""
    profiles = [run for run in runs if run.profile is not None]
    if not profiles:
        return
    files = [file.name for run in profiles if run.profile for file in run.profile.files]
    before, after = files if len({*files}) == len(runs) == len(files) == 2 else ("BEFORE", "AFTER")
    raise UsageError(
        f"run {profiles[0].id} is a profile, and has no latencies to compare",
        why="profiles are compared from their traces: steps, idle time, operators and kernels",
        next=f"laptime trace {after} --against {before}",
    )


def shared_cases(a: Run, b: Run) -> list[tuple[Case, Case]]:
    """The cases that both have by key; without any, by batch size."""
    ours = {case.key: case for case in a.cases if case.status != "failed"}
    theirs = {case.key: case for case in b.cases if case.status != "failed"}
    shared = [(ours[key], theirs[key]) for key in ours if key in theirs]
    if shared:
        return shared
    by_batch = {case.batch: case for case in theirs.values()}
    return [(case, by_batch[case.batch]) for case in ours.values() if case.batch in by_batch]


def _keys(run: Run) -> str:
    return ", ".join(case.key for case in run.cases[:2]) or "no case"


def _compare(baseline: Case, candidate: Case, *, between: Spread) -> Comparison | None:
    for regime in COMPARISON_ORDER:
        left, right = baseline.find("latency", regime), candidate.find("latency", regime)
        if left is not None and right is not None and _has_level(left) and _has_level(right):
            break
    else:
        return None
    # Cases of two runs: levels with their own errors, plus what lies between two runs.
    (a, variance_a), (b, variance_b) = _level(left), _level(right)
    error = math.sqrt(variance_a + variance_b + 2 * between.deviation**2)
    measured = Effect(b - a, error, between.df, rounds=0, processes=len(set(left.process)) or 1)
    comparison = describe(baseline, candidate, left.regime or "", measured)
    if comparison.word != "unclear":
        return comparison
    hint = f"runs {between.words} {between.deviation:.1%} apart; laptime bench A B, interleaved, shows more"
    return structs.replace(comparison, sentence=f"{comparison.sentence}; {hint}")


def _has_level(series: Series) -> bool:
    return bool(series.samples) and quantile(select(series).values, 0.5) > SHORTEST


def _level(series: Series) -> tuple[float, float]:
    """Log median and its variance, from the 95 % interval of the median."""
    values = select(series).values.clip(SHORTEST)
    ci95 = quantile_interval(series, 0.5)
    middle = math.log(quantile(values, 0.5))
    if ci95 is None:
        return middle, (math.log(max(values) / min(values)) if len(values) > 1 else 1.0) ** 2
    return middle, ((math.log(ci95[1]) - math.log(max(ci95[0], SHORTEST))) / 2 / 1.96) ** 2
