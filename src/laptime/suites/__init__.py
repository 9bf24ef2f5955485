"""Named benchmarks: what a suite file says, as records; which are chosen, and how they are judged.

A suite is a TOML file (see standard.toml), or a Python file that builds one:

    from laptime.suites import Benchmark, Suite

    suite = Suite(
        name="mine",
        benchmark=[Benchmark(name=f"b{n}", target="model.py:build", batch=[n]) for n in (1, 8)],
    )

One benchmark is one `laptime bench`, in processes of its own, and one stored run."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from laptime.analysis import budgets
from laptime.analysis.budgets import refuse_unknown
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.kit.units import amount, seconds, share
from laptime.records.case import Case
from laptime.records.check import Verdict
from laptime.records.comparison import Comparison
from laptime.records.plan import BenchRequest
from laptime.records.quantity import UNDECIDED
from laptime.records.run import Run, Subject

LARGE = "large"  # tag of benchmarks that `--quick` leaves out


class Benchmark(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One named benchmark; what says nothing here is as the options of `laptime bench`."""

    name: str  # unique in its suite
    # what is measured; `targets` are measured side by side and compared, the first is the baseline
    target: str = ""
    targets: list[str] = []
    # batch, dtype, threads: axes; every combination is a case
    batch: list[int] | int | Literal["auto", "auto:linear"] | None = None
    dtype: list[str] | str = "float32"
    threads: list[int] | int = []
    device: str = "auto"
    backend: list[str] | str = []
    python: dict[str, str] = {}
    options: dict[str, Any] = {}
    shapes: dict[str, list[int]] = {}
    channels_last: bool = False
    compile: str = ""
    train: str = ""  # an optimizer (sgd, adamw) measures full training steps
    regimes: list[str] = []
    rate: float | None = None
    preset: Literal["quick", "standard", "strict"] = "standard"
    # precision, budget, timeout: as the options of `laptime bench`, or numbers (a share, seconds)
    precision: str | float | None = None
    budget: str | float | None = None
    timeout: str | float = 120.0
    trials: int | None = None  # fresh processes of each variant
    seed: int = 0
    # max, min: limits of metrics in every case: `{latency = "20 ms", "memory/host/peak" = "2 GiB"}`. Names
    # are `latency` (median), `throughput`, or any tag of the JSON report; bare numbers are in SI units.
    max: dict[str, str | float] = {}
    min: dict[str, str | float] = {}
    regression: str | float | None = None  # the most that latency may be above the stored baseline: `5%`
    tags: list[str] = []  # words to choose it by; `large` ones are left out by --quick

    @property
    def measured(self) -> list[str]:
        """The targets, however they are written."""
        return self.targets or [self.target]


class Suite(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Benchmarks under one name."""

    name: str = ""  # of its runs in the store: `NAME:BENCHMARK`. The file's name where it says none.
    about: str = ""  # one sentence
    # the suite name whose latest stored runs regressions are judged against; its own by default
    baseline: str = ""
    benchmark: list[Benchmark]  # the benchmarks, in order


def digest(request: BenchRequest, subjects: list[Subject]) -> str:
    """Short hash of what is asked, and of the files it is asked of: a run with the same one answers it."""
    bare = msgspec.structs.replace(request, name="", origins={})
    text = msgspec.json.encode([bare, [subject.sha256 for subject in subjects]], order="sorted")
    return hashlib.sha256(text).hexdigest()[:12]


# Which benchmarks of a suite (--match, --quick), and what each asks `bench` for

QUICK_BUDGET = 10.0  # seconds of measuring a benchmark at most with --quick: slow models need it


def choose(suite: Suite, match: Sequence[str] = (), *, quick: bool = False) -> Suite:
    """The suite with the benchmarks that any of the patterns matches; all without patterns. match: found in
    the name (a regular expression), or equal to a tag. quick: only the smallest batch size of each, with the
    preset `quick`, and none tagged `large`.
    Raises UsageError: a pattern is not a regular expression."""
    patterns = [_compile(text) for text in match]
    benchmarks = [each for each in suite.benchmark if not match or _is_wanted(each, patterns)]
    if quick:
        benchmarks = [_small(benchmark) for benchmark in benchmarks if LARGE not in benchmark.tags]
    return structs.replace(suite, benchmark=benchmarks)


def _compile(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise UsageError(
            f"--match {text!r} is not a regular expression", why=str(error), next="--match resnet"
        ) from error


def _is_wanted(benchmark: Benchmark, patterns: list[re.Pattern[str]]) -> bool:
    return any(
        pattern.search(benchmark.name) or any(pattern.fullmatch(tag) for tag in benchmark.tags)
        for pattern in patterns
    )


def _small(benchmark: Benchmark) -> Benchmark:
    sizes = benchmark.batch if isinstance(benchmark.batch, list) else [benchmark.batch]
    numbers = [size for size in sizes if isinstance(size, int)]
    smallest = None if benchmark.batch is None else min(numbers, default=1)
    return structs.replace(benchmark, preset="quick", batch=smallest, budget=QUICK_BUDGET)


def request(
    suite: Suite, benchmark: Benchmark, *, trials: int | None = None, timeout: float | None = None
) -> BenchRequest:
    """Return the request to `laptime bench`; trials and timeout, if given, replace the suite's.
    Raises UsageError: a quantity cannot be read; says of which benchmark."""
    try:
        if isinstance(benchmark.regression, str):
            share(benchmark.regression)
        for limits in (benchmark.max, benchmark.min):
            for name in limits:
                refuse_unknown(name)
            for name, unit in (("latency", "s"), ("throughput", "1/s")):
                if isinstance(limit := limits.get(name, 0.0), str):
                    amount(limit, unit)
        return _request(suite, benchmark, trials, timeout)
    except UsageError as error:
        raise UsageError(
            f"benchmark {benchmark.name!r}: {error.what}", why=error.why, next=error.next
        ) from error


def _request(suite: Suite, each: Benchmark, trials: int | None, timeout: float | None) -> BenchRequest:
    def make_list(value: object) -> list[object]:
        return [*value] if isinstance(value, list) else [value]

    changed = {
        name
        for name in ("batch", "dtype", "threads", "precision", "budget")
        if getattr(each, name) != _DEFAULTS[name]
    }
    asked: dict[str, Any] = {
        "targets": each.measured,
        "batch": each.batch if isinstance(each.batch, str | None) else make_list(each.batch),
        "dtype": make_list(each.dtype),
        "threads": make_list(each.threads),
        "precision": share(each.precision) if isinstance(each.precision, str) else each.precision,
        "budget": seconds(each.budget) if isinstance(each.budget, str) else each.budget,
        "processes": trials or each.trials,
        "timeout": timeout or (seconds(each.timeout) if isinstance(each.timeout, str) else each.timeout),
        "backends": make_list(each.backend),
        "options": {name: make_list(value) for name, value in each.options.items()},
        "name": f"{suite.name}:{each.name}",
        "origins": dict.fromkeys(sorted({"targets", *changed}), "argument"),
    }
    same = set(Benchmark.__struct_fields__) & set(BenchRequest.__struct_fields__) - set(asked)
    return BenchRequest(**asked, **{name: getattr(each, name) for name in same})


_DEFAULTS = structs.asdict(Benchmark(name="x"))


# Budgets held against what was measured


def judge_run(benchmark: Benchmark, run: Run) -> list[Verdict]:
    """A verdict on every limit in every case that has numbers; failed cases tell themselves."""
    return [
        _verdict(case, name, kind, limit)
        for case in run.cases
        if case.status == "ok"
        for kind, limits in (("max", benchmark.max), ("min", benchmark.min))
        for name, limit in limits.items()
    ]


def _verdict(case: Case, name: str, kind: str, limit: str | float) -> Verdict:
    stat = budgets.find_stat(case, name)
    if stat is None:
        near = closest(name, budgets.names(case))
        advice = f"did you mean {near!r}?" if near else ""
        return _leave_open(case.key, kind, name, f"there is no number called {name!r}", advice)
    try:
        return budgets.judge(case, stat, kind, limit)  # type: ignore[arg-type]
    except UsageError as error:
        return _leave_open(case.key, kind, name, error.what, error.next)


def regressions(benchmark: Benchmark, run: Run, compared: list[Comparison] | str) -> list[Verdict]:
    """A verdict on every case that has numbers: undecided if the baseline has none. compared: the run
    against its baseline, or why there is no comparison."""
    if benchmark.regression is None:
        return []
    if isinstance(compared, str):
        key = run.cases[0].key if run.cases else benchmark.name
        return [_leave_open(key, "regression", "latency", compared, "")]
    known = {each.candidate for each in compared}
    new = [case for case in run.cases if case.status == "ok" and case.key not in known]
    return [budgets.regression(each, benchmark.regression) for each in compared] + [
        _leave_open(case.key, "regression", "latency", "the baseline has no such case", "") for case in new
    ]


def _leave_open(case: str, kind: str, metric: str, sentence: str, next_step: str) -> Verdict:
    return Verdict(
        kind=kind,  # type: ignore[arg-type]
        case=case,
        metric=metric,
        word=UNDECIDED,
        sentence=sentence,
        next=next_step,
    )
