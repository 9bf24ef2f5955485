"""Run named benchmarks, store each as it ends, and check their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from msgspec import structs

from laptime.analysis.stat import Stat
from laptime.apps.cli import measuring, output
from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.measuring_options import time_option
from laptime.apps.cli.options import off_option, report_options, voice_options
from laptime.apps.cli.progress import progress
from laptime.apps.cli.suite_commands.list import match_option, show
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.kit.text import count
from laptime.kit.units import show as shown
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.verdict import conclusion, summary
from laptime.suites.choosing import chosen
from laptime.suites.loading import load
from laptime.verbs.suite import PlannedBenchmark


@click.command("run")
@click.argument("where", metavar="FILE.toml | FILE.py | FOLDER | NAME")
@match_option
@click.option(
    "--quick", is_flag=True, help="Smallest batch, preset quick, nothing tagged large: for a laptop."
)
@click.option("--list", "only_list", is_flag=True, help="List the benchmarks, measure nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would run and for about how long, measure nothing.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Fresh processes per variant.")
@time_option("--timeout", "Time limit of a step; a longer one counts as hung.")
@click.option("--resume", is_flag=True, help="Skip what the last run of this suite has measured.")
@click.option(
    "--baseline", metavar="SUITE", help="Check for regressions against the stored runs of this suite."
)
@click.option("--name", metavar="TEXT", help="Store the runs as TEXT:BENCHMARK. [default: the suite's name]")
@off_option("--no-save", "save", "Do not store the runs.")
@report_options
@voice_options
@pass_voice
def command(
    voice: Voice,
    /,
    where: str,
    match: tuple[str, ...],
    quick: bool,
    only_list: bool,
    outputs: tuple[str, ...],
    as_json: bool,
    **wishes: Any,
) -> int:
    """Run named benchmarks, store each as it ends, and check their budgets.

    Each benchmark runs in fresh processes of its own. If one fails, the others still run.

    Exit codes: 0 all budgets kept, 1 one is broken, 3 one is undecided, 4 measured code failed, 5 nothing
    matches.

    \b
    laptime suite run standard --quick
    laptime suite run bench.toml --match vision --trials 3 -o report.html
    laptime suite run bench.toml --resume
    """
    suites = [chosen(suite, match, quick=quick) for suite in load(where)]
    if wishes["name"]:
        suites = [_renamed(suite, wishes["name"], len(suites)) for suite in suites]
    if not any(suite.benchmark for suite in suites):
        voice.say(f"no benchmark of {where} matches   next: laptime suite list {where}")
        return ExitCode.NOTHING
    if only_list:
        return show(suites)
    return _carried_out(where, suites, outputs, as_json, voice, wishes)


def _carried_out(
    where: str,
    suites: list[Any],
    outputs: Sequence[str],
    as_json: bool,
    voice: Voice,
    wishes: dict[str, Any],
) -> int:
    from laptime.verbs import suite as verb

    reports = output.planned(outputs)
    items = verb.prepare(
        suites,
        trials=wishes["trials"],
        timeout=wishes["timeout"],
        baseline=wishes["baseline"] or "",
        resume=wishes["resume"],
    )
    if wishes["dry_run"]:
        return _foretold(items)
    _announce(items, voice)
    complaints: list[LaptimeError] = []
    run = verb.measure(
        items,
        watch=lambda item: progress(quiet=voice.quiet),
        ended=lambda item, run: voice.say(_ended(item, run, items)),
        complain=complaints.append,
        save=wishes["save"],
    )
    if as_json:
        output.show(run, format="json")
    else:
        output.result(_text(run))
    failed = [*complaints, *output.write(run, reports, voice=voice)]
    for error in failed:
        voice.complain(error)
    if run.status == "interrupted" and wishes["save"]:
        voice.say(f"measure the rest with: laptime suite run {where} --resume")
    return exit_code(run) or (ExitCode.USAGE if failed else ExitCode.OK)


def exit_code(run: Run) -> ExitCode:
    """What a suite says to a script: a broken budget is the answer no, whatever else there was."""
    code = measuring.exit_code(run)
    words = {verdict.word for verdict in run.verdicts}
    if code in (ExitCode.INTERRUPTED, ExitCode.BUG):
        return code
    if "broken" in words:
        return ExitCode.NO
    return code or (ExitCode.UNDECIDED if "undecided" in words else ExitCode.OK)


def _renamed(suite: Any, name: str, several: int) -> Any:
    return structs.replace(
        suite, name=name if several == 1 else f"{name} {suite.name}", baseline=suite.baseline or suite.name
    )


def _announce(items: list[PlannedBenchmark], voice: Voice) -> None:
    left = [item for item in items if item.done is None]
    stored = f", {len(items) - len(left)} of them stored already" if len(left) < len(items) else ""
    seconds = sum(item.seconds for item in left)
    about = f", about {_about(seconds)}" if left else ""
    voice.say(f"{count(len(items), 'benchmark')}{stored}{about}")


def _about(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _foretold(items: list[PlannedBenchmark]) -> ExitCode:
    rows = []
    for item in items:
        plan = item.plan
        if isinstance(plan, LaptimeError):
            what, about = f"cannot run: {one_line(plan.what)}", "-"
        else:
            cases = len(plan.variants) * max(1, len(plan.batches))
            what = f"{count(cases, 'case')}, {count(plan.processes, 'trial')}"
            about = f"{_about(item.seconds)} {'as last time' if item.is_known else 'planned'}"
        rows.append((one_line(item.request.name), what, "stored already" if item.done else about))
    total = _about(sum(item.seconds for item in items if item.done is None))
    longer = "" if all(item.is_known for item in items) else "; what was never measured here may take longer"
    output.result(output.table(("benchmark", "what", "time"), rows) + f"\n\nabout {total} in all{longer}")
    return ExitCode.OK


def _ended(item: PlannedBenchmark, run: Run, items: list[PlannedBenchmark]) -> str:
    """One line for a benchmark that has ended: its numbers, its worst word, and what is left."""
    number = items.index(item) + 1
    seconds = sum(other.seconds for other in items[number:] if other.done is None)
    left = f"{number} of {len(items)}" + (f", about {_about(seconds)} left" if seconds >= 1 else "")
    words = [verdict.word for verdict in run.verdicts]
    word = next((word for word in ("broken", "undecided", "kept") if word in words), "")
    failed = next((case.failure.what for case in run.cases if case.failure), "")
    numbers = failed or ", ".join(row[2] for row in _rows(run))
    parts = (item.request.name, numbers, word, f"({left})")
    return one_line("  ".join(part for part in parts if part))


def _answer(run: Run) -> str:
    """What was asked: `passed: 3 checks kept`; where nothing had a limit, what was measured."""
    failed = sum(case.failure is not None for case in run.cases)
    failures = f"{failed} of {count(len(run.cases), 'case')} failed" if failed else ""
    if run.verdicts:
        words = {"kept": "passed", "broken": "not passed", "undecided": "undecided"}
        word = "not passed" if failed else words[conclusion(run.verdicts)]
        return f"{word}: {'; '.join(filter(None, [failures, summary(run.verdicts)]))}"
    return (
        f"not passed: {failures}"
        if failed
        else f"measured: {count(len(run.cases), 'case')}, no limit to keep"
    )


def _rows(run: Run) -> list[tuple[str, ...]]:
    from laptime.analysis.summary import headline, main_throughput, throughputs
    from laptime.reports import _words as words

    rows: list[tuple[str, ...]] = []
    timed, served = _regimes(run)
    for case in run.cases:
        stat, rates = headline(case, run.constants), throughputs(case, run.constants)
        rate = rates.get(served) if served else main_throughput(case, run.constants)
        margin = f"±{words.percent(stat.precision)}" if stat and stat.precision is not None else "-"
        verdicts = [verdict.word for verdict in run.verdicts if verdict.case == case.key]
        budget = next((word for word in ("broken", "undecided", "kept") if word in verdicts), "-")
        rows.append(
            (
                one_line(str(case.axes.get("benchmark", case.target))),
                _case(case, run),
                _number(stat, named=not timed),
                margin,
                _number(rate, named=not served),
                budget,
                case.trust if case.status == "ok" else case.status,
            )
        )
    return rows


def _regimes(run: Run) -> tuple[str, str]:
    """The regimes of all latencies and of all throughputs; "" where the cases share none."""
    from laptime.analysis.summary import headline, shared_throughput_regime

    timed = {stat.regime for case in run.cases if (stat := headline(case, run.constants))}
    served = shared_throughput_regime(run.cases, run.constants)
    return (timed.pop() or "" if len(timed) == 1 else ""), served or ""


def _number(stat: Stat | None, *, named: bool) -> str:
    """A number, with its regime where the column does not name it."""
    if stat is None:
        return "-"
    return f"{shown(stat.value, stat.unit, stat.ci95)}{f' {stat.regime}' if named and stat.regime else ''}"


def _case(case: Case, run: Run) -> str:
    """What tells a case from the others of its benchmark, in words."""
    from laptime.reports._words import axis_phrase, printable

    name = case.axes.get("benchmark")
    targets = {other.target for other in run.cases if other.axes.get("benchmark") == name}
    axes = {axis: value for axis, value in case.axes.items() if axis not in ("benchmark", "device", "dtype")}
    if case.axes.get("dtype") != "float32":
        axes["dtype"] = case.axes.get("dtype", "")
    phrases = [axis_phrase(axis, value) for axis, value in axes.items() if value != ""]
    return ", ".join([printable(case.target)] * (len(targets) > 1) + phrases)


def _text(run: Run) -> str:
    """Whether it passed, the table of all cases, and under it what was not kept, and what failed."""
    latency, rate = (f"{title}, {name}" if name else title for title, name in zip(
        ("latency", "items/s"), _regimes(run), strict=True))  # fmt: skip
    titles = ("benchmark", "case", latency, "95 %", rate, "budget", "verdict")
    lines = [_answer(run), "", output.table(titles, _rows(run), right=(latency, "95 %", rate)), ""]
    for verdict in run.verdicts:
        if verdict.word != "kept":
            lines.append(one_line(f"{verdict.word}: {verdict.case}: {verdict.sentence}"))
            lines += [f"  next: {one_line(verdict.next)}"] if verdict.next else []
    for case in run.cases:
        if case.failure is not None:
            lines.append(one_line(f"failed: {case.key}: {case.failure.what}; {case.failure.why}"))
            lines += [f"  next: {one_line(case.failure.next)}"] if case.failure.next else []
    lines += [one_line(f"note: {each.sentence}") for each in run.findings if each.kind.startswith("suite/")]
    return "\n".join(lines).rstrip()
