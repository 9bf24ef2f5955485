"""Numbers of threads and instances that a run measured, each on the smallest machine with cores for it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from laptime.analysis.scaling import Scaled, scaling
from laptime.pricing import formulas
from laptime.pricing.machine_table import Table
from laptime.pricing.sizing import sized_down
from laptime.records.cost import Cores, FlexShape, Machine, Speed
from laptime.records.run import Run


def cores(
    run: Run, kept: Sequence[Speed], machine: Machine, table: Table, *, utilization: float, asked: bool
) -> list[Cores]:
    """The rows of a run that varied them; none for another. The cheapest that keeps the promise is marked.

    Args:
        kept: speeds that keep the promise, or all without one (`asked` is then false).
    """
    by_case = {speed.case: speed for speed in kept}
    shape = next((each for each in table.flex if each.name == _stem(machine)), None)
    rows = []
    for scaled in scaling(run.cases, run.constants, _cores_of(run, machine)):
        speed = by_case.get(scaled.case)
        rows.append(_row(scaled, speed, shape, machine, utilization=utilization, asked=asked))
    priced = [row for row in rows if row.usd_per_million is not None and row.holds is not False]
    best = min(priced, key=lambda row: row.usd_per_million or 0.0, default=None)
    return [structs.replace(row, cheapest=row is best) for row in rows]


def _stem(machine: Machine) -> str:
    return ":".join(machine.name.split(":")[:2])


def _cores_of(run: Run, machine: Machine) -> float | None:
    """Physical cores: as the machine tells; else as its shape is known to have."""
    told = run.environment.physical_cores
    if told is not None:
        return float(told)
    return machine.cores if machine.vcpus == run.environment.vcpus else None


def _row(
    scaled: Scaled,
    speed: Speed | None,
    shape: FlexShape | None,
    machine: Machine,
    *,
    utilization: float,
    asked: bool,
) -> Cores:
    row = Cores(
        threads=scaled.threads,
        instances=scaled.instances,
        case=scaled.case,
        rate=speed.rate if speed else scaled.rate.value,
        ci95=speed.ci95 if speed else scaled.rate.interval,
        efficiency=scaled.efficiency,
        cores=scaled.cores,
        siblings=scaled.siblings,
        holds=speed is not None if asked else None,
    )
    if speed is None:
        return row
    sized: Machine | None = machine
    if shape is not None and scaled.cores is not None:
        sized = sized_down(shape, scaled.cores, speed.host_memory)
    if sized is None:
        return row
    price = sized.usd_per_hour
    return structs.replace(
        row,
        machine=sized.name,
        usd_per_hour=price,
        usd_per_million=formulas.per_million(price, speed.rate, utilization),
    )
