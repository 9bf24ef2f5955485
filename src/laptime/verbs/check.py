"""`check`: is a run within its budgets, and not worse than a baseline?"""

import fnmatch
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from laptime.analysis import budgets
from laptime.analysis.between_runs import Spread
from laptime.analysis.budgets import metric_change, refuse_unknown
from laptime.analysis.budgets import with_verdicts as with_verdicts
from laptime.analysis.compare import compare_in_shared_regime
from laptime.analysis.stat import Stat
from laptime.analysis.summary import REPORTED, summarize
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.kit.units import share
from laptime.launch import interpreter
from laptime.launch.git_worktree import Revision, checked_out
from laptime.launch.worker import Worker, WorkerProcess
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Verdict
from laptime.records.check import summary as summary
from laptime.records.comparison import Comparison
from laptime.records.plan import BenchRequest, Variant
from laptime.records.quantity import BROKEN, UNDECIDED
from laptime.records.run import Run
from laptime.store import lookup
from laptime.suites.loading import refuse_unknown_keys
from laptime.verbs.bench.case_worker import OpenSession, fresh_process
from laptime.verbs.compare import DF_APART, compare_runs, shared_cases, spread_between
from laptime.verbs.history import recent
from laptime.verbs.public_run import Run as PublicRun

FILE = Path("laptime.toml")
UNMEASURED = ("failed", "skipped")


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[budget]]` of laptime.toml."""

    case: str = "*"  # pattern of case keys or targets, as file names are matched
    metric: str = "latency"  # tag of a statistic, or latency (the headline: the median), or throughput
    max: str | float | None = None  # with a unit (`30 ms`), or a number in the metric's SI unit
    min: str | float | None = None
    regression: str | None = None  # share by which it may be worse than its baseline's in matching cases

    def is_for(self, case: Case) -> bool:
        """Whether the pattern matches a case."""
        texts = (case.key, case.target)
        return any(fnmatch.fnmatchcase(text, self.case) or text == self.case for text in texts)


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rules of laptime.toml. Its other tables belong to other commands."""

    budget: list[Budget] = []  # limits of single numbers
    against: str = ""  # the run that a check is against unless the line says otherwise
    tolerance: str = ""  # share by which a case may be slower than its baseline


def read_rules(path: Path) -> Rules:
    """The `[[budget]]` tables and the `[check]` table of a file.
    Raises UsageError: it cannot be read, is no TOML, or has unknown keys or metrics."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read", why=error.strerror or str(error), next="--budgets laptime.toml"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML", why=str(error), next="[[budget]]  max = '30 ms'") from error
    check, tables = document.get("check", {}), document.get("budget", [])
    refuse_unknown_keys(check, ("against", "tolerance"), str(path))
    for table in tables:
        refuse_unknown_keys(table, Budget.__struct_fields__, str(path))
        if isinstance(table, dict) and isinstance(metric := table.get("metric"), str):
            refuse_unknown(metric)
        if isinstance(table, dict) and not {"max", "min", "regression"} & table.keys():
            why, next = "it has neither max, min, nor regression", "[[budget]]  max = '30 ms'"
            raise UsageError(f"a [[budget]] in {path} sets no limit", why=why, next=next)
    try:
        return msgspec.convert({**check, "budget": tables}, Rules)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} has an impossible value", why=str(error), next="[[budget]]  max = '30 ms'"
        ) from error


def rules_of(budgets: str | Path | None, tolerance: str | None) -> Rules:
    """The rules of a file (laptime.toml, if it exists), with the tolerance given instead of the file's.
    Raises UsageError: either cannot be read."""
    file = Path(budgets) if budgets else FILE
    rules = read_rules(file) if budgets or file.exists() else Rules()
    if tolerance is None:
        return rules
    share(tolerance)  # raises if it is not a share
    return msgspec.structs.replace(rules, tolerance=tolerance)


def refuse_nothing(rules: Rules, *, has_baseline: bool) -> None:
    """Raises UsageError: neither a baseline nor a budget says what to check."""
    if has_baseline:
        return
    unheld = next((budget for budget in rules.budget if budget.regression), None)
    if unheld is not None:
        raise UsageError(
            f"the budget of {unheld.case!r} allows a regression of {unheld.regression}, but has no baseline",
            why="neither --against, --against-rev, nor against = in [check] names a baseline",
            next="laptime check last --against last~1",
        )
    if not rules.budget:
        raise UsageError(
            "there is nothing to check against",
            why="neither --against, --against-rev, nor a [[budget]] in laptime.toml",
            next="laptime check last --against last~1",
        )


def check(
    run: Run | str = "last",
    *,
    against: Run | str | None = None,
    budgets: str | Path | None = None,
    tolerance: str | None = None,
    force: bool = False,
) -> PublicRun:
    """Check a run against budgets or a baseline, as `laptime check` does; `verdicts` of the run returned say
    kept, broken or undecided.

    Args:
        run, against: runs, or what names them: id, file, `--name`, "last".
        budgets: a file with budgets, else laptime.toml, if it exists.
        tolerance: allow this much slower, "5%".
        force: check runs that were made under different conditions.

    Raises:
        UsageError: there is nothing to check against, or no such run."""
    rules = rules_of(budgets, tolerance)
    reference = against or rules.against
    refuse_nothing(rules, has_baseline=bool(reference))
    now = lookup.load(run) if isinstance(run, str) else run
    verdicts = against_budgets(now, rules)
    if reference:
        baseline = lookup.load(reference) if isinstance(reference, str) else reference
        verdicts += against_run(now, baseline, rules, force=force)
    return PublicRun.of(with_verdicts(now, verdicts))


def against_budgets(run: Run, rules: Rules) -> list[Verdict]:
    """The verdict on every budget and every case that it is meant for.
    Raises UsageError: a budget matches no case, names no metric, or its limit cannot be read."""
    verdicts: list[Verdict] = []
    for budget in rules.budget:
        cases = [case for case in run.cases if budget.is_for(case)]
        if not cases:
            raise UsageError(
                f"the budget of {budget.case!r} matches no case of this run",
                why=f"its cases: {', '.join(case.key for case in run.cases[:3]) or 'none'}",
                next=f"case = {run.cases[0].target + '*'!r}" if run.cases else "laptime list",
            )
        for case in cases:
            if budget.max is not None or budget.min is not None:
                verdicts += _limits(case, budget)
    return verdicts


def _limits(case: Case, budget: Budget) -> list[Verdict]:
    if case.status in UNMEASURED:
        return [fail_case(case, budget.metric)]
    stat = _find_stat(case, budget.metric)
    limits = (("max", budget.max), ("min", budget.min))
    return [budgets.judge(case, stat, kind, limit) for kind, limit in limits if limit is not None]  # type: ignore[arg-type]


def _find_stat(case: Case, name: str, what_for: str = "") -> Stat:
    """The metric of a case. Raises UsageError: it has none of this name."""
    stat, names = budgets.find_stat(case, name), budgets.names(case)
    if stat is None:
        near = closest(name, names)
        raise UsageError(
            f"{case.key} has no metric {name!r}{what_for}",
            why=f"it has {', '.join(names[2:8]) or 'none'} ...",
            next=f"did you mean {near!r}?" if near else "laptime show --json   lists them all",
        )
    return stat


def fail_case(case: Case, metric: str) -> Verdict:
    """Return a broken verdict: no number is no better than a bad one."""
    what = case.failure.what if case.failure else f"it was {case.status}"
    return Verdict(kind="measured", case=case.key, metric=metric, word=BROKEN, sentence=what)


# Regressions: has a number become worse than that of a stored run, or of an earlier revision?
#
# Latency is compared wherever both sides have it, interleaved if one run measured both. Other numbers are
# compared where a `[[budget]]` names them; and the numbers that a benchmark reported itself, if it has no
# timed calls. A case that cannot be compared is undecided, never left out.


INTERLEAVED = Spread(0.0, DF_APART)  # what lies between two sides of one run: it was measured side by side
Pair = tuple[Case, Case]


def against_run(run: Run, baseline: Run, rules: Rules, *, force: bool = False) -> list[Verdict]:
    """The verdict on every case of a run against its baseline.
    Raises UsageError: they were made under different conditions and `force` is not set, or share no case, or
    a budget names a metric that cannot be compared."""
    measured = {case.key for case in baseline.cases if case.status not in UNMEASURED}
    lost = [case for case in run.cases if case.status in UNMEASURED and case.key in measured]
    verdicts = [fail_case(case, "latency") for case in lost]
    if lost and len(lost) == len(run.cases):
        return verdicts
    earlier = recent()
    compared = compare_runs(baseline, run, force, earlier=earlier)
    pairs = shared_cases(baseline, run)
    between = spread_between(baseline, run, earlier)
    verdicts += of_latency(run, compared, rules) + _of_metrics(pairs, compared, rules, between)
    known = {case.key for _, case in pairs}
    if run.verb == "import":  # another tool's benchmark, which laptime cannot measure
        verdicts = [
            structs.replace(each, next=f"laptime history {shlex.quote(each.case)}") if each.next else each
            for each in verdicts
        ]
    new = [case for case in run.cases if case.status not in UNMEASURED and case.key not in known]
    return verdicts + [_abstain(case, "the baseline has no such case") for case in new]


def of_latency(run: Run, compared: list[Comparison], rules: Rules) -> list[Verdict]:
    """The verdicts on comparisons, each with the tolerance that holds for its case."""
    cases = {case.key: case for case in run.cases}
    return [
        budgets.regression(each, _tolerances(cases[each.candidate], rules)["latency"]) for each in compared
    ]


def of_revision(run: Run, rules: Rules) -> list[Verdict]:
    """The verdicts of a run that measured every target at a revision and now; they name the case, not
    its copy."""
    verdicts = of_latency(run, run.comparisons, rules)
    verdicts += _of_metrics(_pairs(run), run.comparisons, rules, INTERLEAVED)
    return [structs.replace(verdict, case=re.sub(r"/again=\d+$", "", verdict.case)) for verdict in verdicts]


def _of_metrics(
    pairs: list[Pair], compared: list[Comparison], rules: Rules, between: Spread
) -> list[Verdict]:
    """The verdicts on numbers that are no latency: those that budgets name, and those of untimed cases."""
    timed = {each.candidate for each in compared}
    verdicts = []
    for before, case in pairs:
        tolerances = _tolerances(case, rules)
        default = tolerances.pop("latency")
        if case.key not in timed:
            theirs = summarize(before)
            reported = [
                tag
                for tag, stat in summarize(case).items()
                if tag in theirs and stat.better != "none" and (tag.startswith(REPORTED) or "/" not in tag)
            ]
            tolerances = {**dict.fromkeys(reported, default), **tolerances}
            if not reported:
                verdicts.append(_abstain(case, INCOMPARABLE))
        verdicts += [
            metric_change(before, case, _check_metric(case, name), tolerance, between)
            for name, tolerance in tolerances.items()
        ]
    return verdicts


def _tolerances(case: Case, rules: Rules) -> dict[str, str | float]:
    """Return how much worse each metric of a case may be; the last budget that names it counts."""
    asked = {
        budget.metric: budget.regression
        for budget in rules.budget
        if budget.regression and budget.is_for(case)
    }
    return {"latency": rules.tolerance or budgets.TOLERANCE, **asked}


def _check_metric(case: Case, name: str) -> str:
    """The metric, when the case has it and it is known which direction is worse.
    Raises UsageError: one of them is not so."""
    if _find_stat(case, name, " to look for a regression in").better == "none":
        raise UsageError(
            f"a regression of {name!r} cannot be judged",
            why="laptime does not know whether a higher value is better or worse",
            next=f"[[budget]] metric = {name!r} with max = or min = says what is allowed",
        )
    return name


INCOMPARABLE = (
    "it has no timed calls in a regime that its baseline has, and reported no number for which it is "
    "known whether more is worse"
)


def _abstain(case: Case, sentence: str) -> Verdict:
    return Verdict(kind="regression", case=case.key, metric="latency", word=UNDECIDED, sentence=sentence)


def present(run: Run) -> Run:
    """For a run of every target at a revision and now, return today's cases under the keys they had alone."""
    today = [(case, _own_axes(case)) for case in run.cases if _is_second(case)]
    cases = [structs.replace(case, key=case_key(case.target, axes), axes=axes) for case, axes in today]
    return structs.replace(run, cases=cases)


def of_pairs(run: Run) -> list[Comparison]:
    """Comparisons of the cases of a run that measured every target twice, the second as candidate."""
    compared = (compare_in_shared_regime(before, case) for before, case in _pairs(run))
    return [comparison for comparison in compared if comparison is not None]


def _pairs(run: Run) -> list[Pair]:
    first = {_twin(case): case for case in run.cases if not _is_second(case)}
    return [(first[_twin(case)], case) for case in run.cases if _is_second(case) and _twin(case) in first]


def _is_second(case: Case) -> bool:
    return int(case.axes.get("again", 1)) % 2 == 0


def _twin(case: Case) -> tuple[object, ...]:
    return (case.target, *_own_axes(case).items())


def _own_axes(case: Case) -> dict[str, Axis]:
    """Those that tell it from the other cases of its side."""
    return {name: value for name, value in case.axes.items() if name != "again"}


# A target now and at an earlier revision, measured side by side: every target runs twice, interleaved as any
# comparison, its first variant in processes that see the revision's files, its second in processes that see
# the working tree.

Measure = Callable[[BenchRequest, OpenSession], Run]


def against_revision(request: BenchRequest, revision: str, measure: Measure) -> Run:
    """The run of both, whose comparisons have the revision as baseline.
    request: what to measure; targets are looked for in the current folder and in the same one at the
    revision. measure: carries a request out, starting workers as it is told.
    Raises UsageError: there is no such revision, or the request is impossible."""
    with checked_out(revision) as there:
        twice = [target for target in request.targets for _ in range(2)]
        name = request.name or f"check-{there.commit[:10]}"
        run = measure(structs.replace(request, targets=twice, name=name), _either(there))
    return structs.replace(run, comparisons=of_pairs(run))


def _either(there: Revision) -> OpenSession:
    def start(variant: Variant) -> Worker:
        if int(variant.options.get("again", 1)) % 2 == 0:
            return fresh_process(variant)
        python = variant.python or sys.executable
        environ = interpreter.environment(python)
        return WorkerProcess(
            name=f"{variant.target} at {there.commit[:10]}",
            python=interpreter.path_of(python),
            folder=there.folder,
            environ={**environ, "PYTHONPATH": there.python_path(environ["PYTHONPATH"])},
        )

    return start
