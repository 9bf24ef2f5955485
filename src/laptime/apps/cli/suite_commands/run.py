"""Run named benchmarks, store each as it ends, and check their budgets."""

from typing import Any

import click
from msgspec import structs

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line
from laptime.apps.cli.options import ask_for, name_option, on_option, report_options, timeout_option
from laptime.apps.cli.output import Delivery
from laptime.apps.cli.progress import progress
from laptime.apps.cli.suite_commands.list import match_option, show
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.kit.text import count
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.suites import choose
from laptime.suites.loading import load
from laptime.verbs.suite import PlannedBenchmark


@click.command("run")
@click.argument("where", metavar="FILE.toml | FILE.py | FOLDER | NAME")
@match_option
@click.option(
    "--quick", is_flag=True, help="Use the smallest batch and preset quick; skip benchmarks tagged large."
)
@click.option("--list", "only_list", is_flag=True, help="List the benchmarks without running them.")
@click.option("--dry-run", is_flag=True, help="Show what would run and how long it would take.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="New processes for each variant.")
@timeout_option("Time limit of a step.")
@click.option("--resume", is_flag=True, help="Skip benchmarks that the last run of this suite finished.")
@click.option("--detach", is_flag=True, help="Go on in the background: laptime fleet shows it.")
@click.option(
    "--baseline", metavar="SUITE", help="Check for regressions against the stored runs of this suite."
)
@on_option
@name_option("Store the runs as TEXT:BENCHMARK. [default: the suite's name]")
@ask_for(BenchRequest, "save")
@report_options
def command(
    *, delivery: Delivery, where: str, match: tuple[str, ...], quick: bool, only_list: bool, **wishes: Any
) -> int:
    """Run named benchmarks, store each as it ends, and check their budgets.

    Each benchmark runs in fresh processes of its own. If one fails, the others still run.

    Exit codes: 0 all budgets kept, 1 one is broken, 3 one is undecided, 4 measured code failed, 5 nothing
    matches.

    \b
    laptime suite run standard --quick
    laptime suite run bench.toml --match vision --trials 3 -o report.html
    laptime suite run bench.toml --resume
    laptime suite run standard --on slurm --detach
    """
    suites = [choose(suite, match, quick=quick) for suite in load(where)]
    if name := wishes["name"]:
        names = [name if len(suites) == 1 else f"{name} {suite.name}" for suite in suites]
        suites = [
            structs.replace(suite, name=new, baseline=suite.baseline or suite.name)
            for suite, new in zip(suites, names, strict=True)
        ]
    if not any(suite.benchmark for suite in suites):
        delivery.voice.say(f"no benchmark of {where} matches   next: laptime suite list {where}")
        return ExitCode.NOTHING
    return show(suites) if only_list else _carry_out(where, suites, delivery, wishes)


def _carry_out(where: str, suites: list[Any], delivery: Delivery, wishes: dict[str, Any]) -> int:
    from laptime.apps.cli.commands.fleet import detach
    from laptime.verbs import suite as verb

    voice = delivery.voice
    asked = {name: wishes[name] for name in ("trials", "timeout", "resume")}
    items = verb.prepare(suites, **asked, baseline=wishes["baseline"] or "")
    if wishes["dry_run"]:
        return _foretold(items)
    _announce(items, voice)
    machines = delivery.machines(*(item.request for item in items if item.done is None))
    if wishes["detach"]:
        return detach(voice)
    complaints: list[LaptimeError] = []
    run = verb.measure(
        items,
        watch=lambda item: progress(quiet=voice.quiet),
        ended=lambda item, run: voice.say(_describe(item, run, items)),
        complain=complaints.append,
        save=wishes["save"],
        machines=machines,
    )
    output.show(run, format=delivery.format)
    written = delivery.write(run, *complaints)
    if run.status == "interrupted" and wishes["save"]:
        voice.say(f"measure the rest with: laptime suite run {where} --resume")
    return exit_code(run) or written


def exit_code(run: Run) -> ExitCode:
    """The exit code of a suite: a broken budget is the answer no, whatever else there was."""
    code = output.exit_code(run)
    words = {verdict.word for verdict in run.verdicts}
    if code in (ExitCode.INTERRUPTED, ExitCode.BUG):
        return code
    if "broken" in words:
        return ExitCode.NO
    return code or (ExitCode.UNDECIDED if "undecided" in words else ExitCode.OK)


def _announce(items: list[PlannedBenchmark], voice: Voice) -> None:
    left = [item for item in items if item.done is None]
    stored = f", {len(items) - len(left)} of them stored already" if len(left) < len(items) else ""
    seconds = sum(item.seconds for item in left)
    about = f", about {_about(seconds)}" if left else ""
    voice.say(f"{count(len(items), 'benchmark')}{stored}{about}")
    for item in left:
        if isinstance(item.plan, LaptimeError):
            voice.say(one_line(f"{item.request.name} cannot run: {item.plan.what}   next: {item.plan.next}"))


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


def _describe(item: PlannedBenchmark, run: Run, items: list[PlannedBenchmark]) -> str:
    """One line for a benchmark that has ended: its numbers, its worst word, and what is left."""
    from laptime.analysis.summary import headline  # numpy, which `laptime --help` can do without

    number = items.index(item) + 1
    seconds = sum(other.seconds for other in items[number:] if other.done is None)
    left = f"{number} of {len(items)}" + (f", about {_about(seconds)} left" if seconds >= 1 else "")
    words = [verdict.word for verdict in run.verdicts]
    word = next((word for word in ("broken", "undecided", "kept") if word in words), "")
    failed = next((case.failure.what for case in run.cases if case.failure), "")
    stats = [headline(case, run.constants) for case in run.cases]
    numbers = failed or ", ".join(stat.text for stat in stats if stat is not None)
    parts = (item.request.name, numbers, word, f"({left})")
    return one_line("  ".join(part for part in parts if part))
