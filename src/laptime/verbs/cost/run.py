"""`cost`: stored runs and prices in, the answer out. Nothing is measured, no network is used unasked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from laptime.analysis.promises import Promise, promises, text
from laptime.kit import __version__
from laptime.kit.errors import UsageError
from laptime.pricing import ages, machine_table
from laptime.pricing.machine_table import Table
from laptime.pricing.speeds import speeds, verdict
from laptime.records.cost import Cores, Cost, Elsewhere, Excluded, Prediction, Priced, RunFacts, Work
from laptime.records.run import Run
from laptime.verbs.cost import elsewhere
from laptime.verbs.cost.cores import cores
from laptime.verbs.cost.elsewhere import Measured
from laptime.verbs.cost.lines import line, savings, with_cheapest
from laptime.verbs.cost.machines import Known, doubts, machine_of, refuse_mismatch
from laptime.verbs.cost.request import CostRequest


def cost(runs: Sequence[Run], request: CostRequest) -> Cost:
    """What the runs cost.

    Raises:
        UsageError: no price is known, an option is impossible, or a run has no throughput.
        NoCost: a run's numbers are invalid, or none is shown to keep the promise.
    """
    request.check(len(runs))
    today = request.today or datetime.now(UTC).date()
    table = machine_table.load(today=today, local=request.prices)
    wanted = promises(request.slo)
    measured, excluded, scaled, known = _measured(runs, request, table, wanted)
    lines = with_cheapest([each.line for each in measured])
    measured = [each._replace(line=marked) for each, marked in zip(measured, lines, strict=True)]
    rows: list[Elsewhere] = []
    warnings: list[str] = []
    quality: Prediction | None = None
    work: Work | None = None
    if request.where:
        asked = elsewhere.question(measured, utilization=request.utilization, wanted=wanted, today=today)
        if isinstance(asked, str):
            warnings.append(asked)
        else:
            work = asked.work
            rows, quality = elsewhere.elsewhere(asked, measured, table)
    return Cost(
        laptime=__version__,
        today=today.isoformat(),
        utilization=request.utilization,
        slo=text(wanted),
        runs=[_facts(run) for run in runs],
        machines=[_priced(each, today) for each in known],
        lines=lines,
        savings=[] if request.where and len(runs) > 2 else savings(runs, lines),
        cores=scaled,
        elsewhere=rows,
        work=work,
        prediction=quality,
        excluded=excluded,
        warnings=[*warnings, *_warnings(measured, known, today)],
        refused=table.refused,
    )


def _measured(
    runs: Sequence[Run], request: CostRequest, table: Table, wanted: Sequence[Promise]
) -> tuple[list[Measured], list[Excluded], list[Cores], list[Known]]:
    """Every speed of every run on its machine."""
    measured: list[Measured] = []
    excluded: list[Excluded] = []
    scaled: list[Cores] = []
    machines: list[Known] = []
    for at, run in enumerate(runs):
        made = speeds(run, wanted=wanted, samples_per_step=request.samples_per_step)
        known = machine_of(run, at, request, table)
        for speed in made.speeds:
            refuse_mismatch(run, speed, known.machine)
            measured.append(Measured(run, line(speed, known.machine, request), known.machine))
        excluded += made.excluded
        if not any(known.machine == each.machine for each in machines):
            machines.append(known)
        scaled += cores(
            run,
            made.speeds,
            known.machine,
            table,
            utilization=request.utilization,
            asked=bool(wanted),
        )
    if request.samples is not None and all(each.line.training is None for each in measured):
        raise UsageError(
            "a training cannot be counted in " + measured[0].line.speed.unit + "s",
            why="--samples is for runs whose unit is a sample, a step or an item",
            next="leave --samples out",
        )
    return measured, excluded, scaled, machines


def _facts(run: Run) -> RunFacts:
    return RunFacts(id=run.id, name=run.name, verb=run.verb, started=run.started, verdict=verdict(run))


def _priced(known: Known, today: date) -> Priced:
    machine = known.machine
    return Priced(
        machine=machine,
        known_by=known.by,
        age=ages.words(machine, today),
        age_days=ages.days(machine, today),
    )


def _warnings(measured: Sequence[Measured], known: Sequence[Known], today: date) -> list[str]:
    """What does not fit together, and prices that are too old."""
    told = [sentence for each in measured for sentence in doubts(each.run, each.line.speed, each.machine)]
    old = [ages.warning(each.machine, today) for each in known]
    hosts = {each.run.id for each in measured if each.line.speed.unit == "step"}
    steps = [f"run {run} does not tell how many samples a step has: --batch N" for run in sorted(hosts)]
    return list(dict.fromkeys([*told, *filter(None, old), *steps]))
