"""Check a run against budgets, a baseline, or an earlier revision."""

from typing import Any

import click
import msgspec

from laptime.apps.cli import options, output
from laptime.apps.cli.commands.bench import make_request, run_of
from laptime.apps.cli.commands.compare import again_option, as_measured, is_foreign, load_stored
from laptime.apps.cli.options import complete_runs
from laptime.kit.errors import UsageError
from laptime.records.check import Verdict, conclusion, exit_code
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.store import lookup
from laptime.verbs import check as verb
from laptime.verbs.check import with_verdicts


@click.command("check", cls=options.Command)
@click.argument("subject", metavar="RUN | TARGET", default="last", shell_complete=complete_runs)
@click.option("--against", metavar="RUN", help="Fail if slower than this stored run.")
@click.option(
    "--against-rev",
    metavar="REV",
    help="Fail if slower than this git revision; both are measured now, in turns.",
)
@click.option("--budgets", metavar="FILE", help="File with budgets. [default: laptime.toml, if it exists]")
@click.option("--tolerance", metavar="PERCENT", help="Allow this much slower. [default: 5%]")
@again_option
@click.option("--force", is_flag=True, help="Check runs that were made under different conditions.")
@options.ask_for(BenchRequest)
@options.report_options
def command(
    *,
    delivery: output.Delivery,
    subject: str,
    against: str | None,
    against_rev: str | None,
    budgets: str | None,
    tolerance: str | None,
    again: bool,
    force: bool,
    **given: Any,
) -> int:
    """Check a run against budgets, a baseline, or an earlier revision.

    RUN is a stored run, by default the last one. A TARGET is measured first.

    Exit codes: 0 every limit is kept, 1 one is broken, 3 the intervals cannot decide.

    \b
    laptime check last --against baseline -o junit.xml
    laptime check model.py:build --against-rev main -o comment.md
    laptime check                  # the budgets in laptime.toml
    """
    rules = verb.rules_of(budgets, tolerance)
    reference = against or ("" if against_rev else rules.against)
    verb.refuse_nothing(rules, has_baseline=bool(reference or against_rev))
    baseline = lookup.load(reference) if reference else None
    run = load_stored(subject)
    if run is not None and against_rev and is_foreign(subject) and not again:
        raise UsageError(
            f"{subject} was imported, and laptime does not run its targets by itself",
            why=f"it names {', '.join(each.target for each in run.subjects)}; measuring that runs its code",
            next="--again   runs it all the same",
        )
    if run is None or against_rev:
        earlier = run or baseline
        targets = [s.target for s in run.subjects] if run else [subject]
        request = make_request(targets, given)
        run = _measure(as_measured(earlier, request) if earlier else request, against_rev, delivery)
        if code := output.exit_code(run):
            return delivery.deliver(run) or code
    verdicts = verb.of_revision(run, rules) if against_rev else []
    now = verb.present(run) if against_rev else run
    verdicts += verb.against_budgets(now, rules)
    if baseline is not None:
        verdicts += verb.against_run(now, baseline, rules, force=force)
    judged = with_verdicts(run, verdicts)
    if delivery.as_json:
        output.result(output.json_text(_document(run, verdicts)))
    else:
        output.show(judged, format="text")
    return delivery.write(judged) or exit_code(verdicts)


def _measure(request: BenchRequest, revision: str | None, delivery: output.Delivery) -> Run:
    """The request carried out: now, or now and at a revision."""
    if revision is None:
        return run_of(request, delivery)
    return verb.against_revision(request, revision, lambda wanted, start: run_of(wanted, delivery, start))


def _document(run: Run, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        "schema": "laptime.check/1",
        "run": run.id,
        "conclusion": conclusion(verdicts),
        "verdicts": [msgspec.structs.asdict(verdict) for verdict in verdicts],
    }
