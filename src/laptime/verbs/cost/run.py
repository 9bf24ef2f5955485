"""`cost`: stored runs and prices in, the answer out. Nothing is measured, no network is used unasked."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal

from msgspec import structs

from laptime.analysis.promises import Promise, promises, text
from laptime.analysis.scaling import Scaled, scaling
from laptime.kit import __version__
from laptime.kit.errors import UsageError
from laptime.pricing import formulas, machine_table
from laptime.pricing.formulas import size_down
from laptime.pricing.machine_table import Table
from laptime.pricing.speeds import speeds, verdict
from laptime.records.cost import (
    Cores,
    Cost,
    Elsewhere,
    Excluded,
    Line,
    Machine,
    Prediction,
    Priced,
    RunFacts,
    Saving,
    Speed,
    Work,
)
from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.verbs.cost.machines import (
    Known,
    MachineLine,
    doubts,
    elsewhere,
    machine_of,
    question,
    refuse_mismatch,
    share_of,
)
from laptime.verbs.cost.request import CostRequest


def cost(runs: Sequence[Run], request: CostRequest) -> Cost:
    """Return the cost of the runs.

    Raises:
        UsageError: no price is known, an option is impossible, or a run has no throughput.
        NoCost: a run's numbers are invalid, or none is shown to keep the promise.
    """
    request.check(len(runs))
    today = request.today or datetime.now(UTC).date()
    table = machine_table.load(today=today, local=request.prices)
    wanted = promises(request.slo)
    measured, excluded, scaled, known = _price_runs(runs, request, table, wanted)
    lines = with_cheapest([each.line for each in measured])
    measured = [each._replace(line=marked) for each, marked in zip(measured, lines, strict=True)]
    rows: list[Elsewhere] = []
    warnings: list[str] = []
    quality: Prediction | None = None
    work: Work | None = None
    if request.where:
        asked = question(measured, utilization=request.utilization, wanted=wanted, today=today)
        if isinstance(asked, str):
            warnings.append(asked)
        else:
            work = asked.work
            rows, quality = elsewhere(asked, measured, table)
    return Cost(
        laptime=__version__,
        today=today.isoformat(),
        utilization=request.utilization,
        slo=text(wanted),
        prices=str(request.prices or ""),
        runs=[
            RunFacts(id=run.id, name=run.name, verb=run.verb, started=run.started, verdict=verdict(run))
            for run in runs
        ],
        machines=[
            Priced(
                machine=each.machine,
                known_by=each.by,
                price=each.price,
                age=formulas.age_text(each.machine, today),
                age_days=formulas.age_in_days(each.machine, today),
            )
            for each in known
        ],
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


def _price_runs(
    runs: Sequence[Run], request: CostRequest, table: Table, wanted: Sequence[Promise]
) -> tuple[list[MachineLine], list[Excluded], list[Cores], list[Known]]:
    """Return every speed of every run on its machine."""
    measured: list[MachineLine] = []
    excluded: list[Excluded] = []
    scaled: list[Cores] = []
    machines: list[Known] = []
    for index, run in enumerate(runs):
        made = speeds(run, wanted=wanted, samples_per_step=request.samples_per_step)
        known = machine_of(run, index, request, table)
        for speed in made.speeds:
            refuse_mismatch(run, speed, known.machine)
            measured.append(MachineLine(run, line(run, speed, known.machine, request), known.machine))
        excluded += made.excluded
        if not any(known.machine == other.machine for other in machines):
            machines.append(known)
        scaled += cores(
            run, made.speeds, known.machine, table, utilization=request.utilization, asked=bool(wanted)
        )
    if request.samples is not None and all(each.line.training is None for each in measured):
        raise UsageError(
            "a training cannot be counted in " + measured[0].line.speed.unit + "s",
            why="--samples is for runs whose unit is a sample, a step or an item",
            next="leave --samples out",
        )
    return measured, excluded, scaled, machines


def _warnings(measured: Sequence[MachineLine], known: Sequence[Known], today: date) -> list[str]:
    """List what does not fit together, and prices that are too old."""
    told = [sentence for each in measured for sentence in doubts(each.run, each.line.speed, each.machine)]
    told += [formulas.age_warning(each.machine, today) for each in known]
    hosts = {each.run.id for each in measured if each.line.speed.unit == "step"}
    told += [f"run {run} does not say how many samples a step has: --batch N" for run in sorted(hosts)]
    return list(filter(None, dict.fromkeys(told)))


# A line a measured speed, and one line against another.


def line(run: Run, speed: Speed, machine: Machine, request: CostRequest) -> Line:
    """Return the cost of a speed on its machine."""
    share = share_of(run, speed, machine)
    price = machine.usd_per_hour * share
    training = None
    if request.samples is not None and speed.unit in ("sample", "step", "item", "call"):
        training = formulas.training(price, speed.throughput, request.samples, request.epochs)
    monthly = formulas.monthly(price, speed.rate, request.rate) if request.rate is not None else None
    cost = formulas.per_million(price, speed.throughput, request.utilization)
    return Line(
        speed=speed,
        machine=machine.name,
        usd_per_hour=price,
        share=share,
        usd_per_million=cost.value,
        ci95=cost.interval,
        units_per_usd=formulas.per_usd(price, speed.rate, request.utilization),
        usd_per_month=formulas.per_month(price),
        training=training,
        monthly=monthly,
    )


def with_cheapest(lines: Sequence[Line]) -> list[Line]:
    """The same lines, the cheapest of each run marked."""
    by_price = sorted(lines, key=lambda each: each.usd_per_million)
    best = {each.speed.run: each for each in reversed(by_price)}
    return [structs.replace(line, cheapest=line is best[line.speed.run]) for line in lines]


def savings(runs: Sequence[Run], lines: Sequence[Line]) -> list[Saving]:
    """Before against after: the two halves of a tuning session, or two runs.

    Of two runs, cases of the same key are compared; if none is in both, the cheapest of each."""
    if len(runs) == 1:
        by_label, tuning = {line.speed.case: line for line in lines}, runs[0].tuning
        if tuning is None or not {"as it is", "tuned"} <= {*by_label}:
            return []
        before, after, gain = by_label["as it is"], by_label["tuned"], tuning.speedup
        ratio = before.usd_per_million / after.usd_per_million
        around = Quantity.of(ratio, gain.ci95 if gain else None)
        return [_saving(before, after, around, paired=gain is not None)]
    if len(runs) != 2 or runs[0].id == runs[1].id:
        return []
    old, new = ([line for line in lines if line.speed.run == run.id] for run in runs)
    pairs = [(a, b) for a in old for b in new if a.speed.case == b.speed.case and _alike(a, b)]
    if not pairs:
        cheapest = [min(side, key=lambda each: each.usd_per_million) for side in (old, new) if side]
        pairs = [(cheapest[0], cheapest[1])] if len(cheapest) == 2 and _alike(*cheapest) else []
    # Neither was measured beside the other: the ratio reaches from end to end.
    return [_saving(a, b, a.cost.divide(b.cost, "1"), paired=False) for a, b in pairs]


def _alike(a: Line, b: Line) -> bool:
    """Whether their units mean the same."""
    return a.speed.unit == b.speed.unit or {a.speed.unit, b.speed.unit} == {"call", "item"}


def _saving(before: Line, after: Line, ratio: Quantity, *, paired: bool) -> Saving:
    word: Literal["cheaper", "dearer", "unclear"] = "unclear"
    if ratio.low is not None and ratio.high is not None and (ratio.low > 1 or ratio.high < 1):
        word = "cheaper" if ratio.low > 1 else "dearer"
    a, b = before.monthly, after.monthly
    c, d = before.training, after.training
    return Saving(
        before=_name(before),
        after=_name(after),
        usd_before=before.usd_per_million,
        usd_after=after.usd_per_million,
        ratio=ratio.value,
        ci95=ratio.interval,
        word=word,
        paired=paired,
        usd_per_month=a.usd - b.usd if a and b else None,
        usd_per_training=c.usd - d.usd if c and d else None,
    )


def _name(of: Line) -> str:
    return of.speed.case if of.speed.at == "training" else f"{of.speed.run}: {of.speed.label}"


# Numbers of threads and instances that a run measured, each on the smallest machine with cores for it.


def cores(
    run: Run, kept: Sequence[Speed], machine: Machine, table: Table, *, utilization: float, asked: bool
) -> list[Cores]:
    """The rows of a run that varied them; none for another. The cheapest that keeps the promise is marked.
    kept: speeds that keep the promise, or all without one (`asked` is then false)."""
    by_case = {speed.case: speed for speed in kept}
    rows = []
    listed = machine.cores if machine.vcpus == run.environment.vcpus else None
    for scaled in scaling(run.cases, run.constants, run.environment.physical_cores or listed):
        speed = by_case.get(scaled.case)
        rows.append(_row(scaled, speed, table, machine, utilization=utilization, asked=asked))
    priced = [row for row in rows if row.usd_per_million is not None and row.holds is not False]
    best = min(priced, key=lambda row: row.usd_per_million or 0.0, default=None)
    return [structs.replace(row, cheapest=row is best) for row in rows]


def _row(
    scaled: Scaled, speed: Speed | None, table: Table, machine: Machine, *, utilization: float, asked: bool
) -> Cores:
    rate = speed.throughput if speed else scaled.rate
    row = Cores(
        threads=scaled.threads,
        instances=scaled.instances,
        case=scaled.case,
        rate=rate.value,
        ci95=rate.interval,
        efficiency=scaled.efficiency,
        cores=scaled.cores,
        siblings=scaled.siblings,
        holds=speed is not None if asked else None,
    )
    sized: Machine | None = machine
    if speed and scaled.cores and (shape := table.flexible(machine.name)):
        sized = size_down(shape, scaled.cores, speed.host_memory)
    if speed is None or sized is None:
        return row
    sized = table.find_contract(sized)
    usd = formulas.per_million(sized.usd_per_hour, rate, utilization).value
    return structs.replace(row, machine=sized.name, usd_per_hour=sized.usd_per_hour, usd_per_million=usd)
