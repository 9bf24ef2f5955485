"""`--where`: every machine whose price is known, with what it cannot beat, and what it is predicted to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from laptime.analysis.promises import Promise
from laptime.kit.units import show, usd
from laptime.pricing import ages, formulas, prediction
from laptime.pricing.bounds import Bound, bound, devices, fits, may_lower
from laptime.pricing.machine_table import Table
from laptime.pricing.prediction import Reached
from laptime.pricing.sizing import memory_needed, sized_down
from laptime.pricing.work import work_of
from laptime.records.cost import Elsewhere, Line, Machine, Prediction, Work
from laptime.records.run import Run

_CORES = 16.0
"""Cores that a flexible shape is sized to where the run does not tell how many it had."""


class Measured(NamedTuple):
    """A line with the run and the machine that it comes from."""

    run: Run
    line: Line
    machine: Machine


class Question(NamedTuple):
    """What is asked of every machine.

    Attributes:
        work: of one call of the reference. batch: units in it.
        reference: the measured line that bounds are held against: the cheapest.
        loose: float32 may be computed in a lower precision.
        host, device: bytes that it needs of a machine, and of an accelerator.
    """

    work: Work
    batch: float
    reference: Line
    loose: bool
    host: float | None
    device: float | None
    utilization: float
    wanted: Sequence[Promise]
    today: date


def question(
    measured: Sequence[Measured], *, utilization: float, wanted: Sequence[Promise], today: date
) -> Question | str:
    """The cheapest measured line and its work; a sentence where nothing bounds it."""
    cheapest = min(measured, key=lambda each: each.line.usd_per_million)
    speed, run = cheapest.line.speed, cheapest.run
    case = next((each for each in run.cases if each.key == speed.case), None)
    work = work_of(case) if case is not None else None
    if work is None:
        return (
            f"nothing bounds other machines: run {run.id} has no count of dense products and convolutions "
            "(laptime bench counts them, without --timing-only)"
        )
    backend = str(speed.axes.get("backend", "torch"))
    device = speed.device_memory if not speed.device.startswith("cpu") else work.weights or None
    return Question(
        work=work,
        batch=speed.batch,
        reference=cheapest.line,
        loose=may_lower(run.environment.knobs, backend),
        host=memory_needed(speed.host_memory)
        if speed.device.startswith("cpu") and speed.host_memory
        else None,
        device=device,
        utilization=utilization,
        wanted=wanted,
        today=today,
    )


def elsewhere(
    asked: Question, measured: Sequence[Measured], table: Table
) -> tuple[list[Elsewhere], Prediction]:
    """All machines but the measured ones: the cheapest bound first; and how good predictions are."""
    reached = list(_reached(asked, measured))
    quality = prediction.quality(reached)
    names = {each.machine.name for each in measured}
    rows = [_row(machine, asked, reached, quality) for machine in _machines(asked, measured, table)]
    kept = [row for row in rows if row.machine.name not in names]
    order = {"estimate": 0, "open": 0, "ruled out": 1, "does not fit": 2, "unknown": 3}
    kept.sort(key=lambda row: (order[row.word], row.usd_per_million or math.inf, row.machine.name))
    return kept, quality


def _machines(asked: Question, measured: Sequence[Measured], table: Table) -> Iterator[Machine]:
    """The table's machines, each in its cheapest region; flexible shapes with the cores of the reference."""
    cheapest: dict[str, Machine] = {}
    for machine in table.machines:
        known = cheapest.get(machine.name)
        if known is None or machine.usd_per_hour < known.usd_per_hour:
            cheapest[machine.name] = machine
    yield from cheapest.values()
    reference = next((each for each in measured if each.line is asked.reference), measured[0])
    cores = reference.machine.cores or reference.run.environment.physical_cores or _CORES
    for shape in table.flex:
        size = sized_down(shape, cores, reference.line.speed.host_memory)
        if size is not None:
            yield size


def _reached(asked: Question, measured: Sequence[Measured]) -> Iterator[Reached]:
    """What the same work reached on each measured machine, on one accelerator or on all cores."""
    seen = set()
    for each in measured:
        speed = each.line.speed
        alike = speed.target == asked.reference.speed.target and speed.axes == _axes(asked, speed.device)
        best = bound(asked.work, each.machine, is_loose=asked.loose) if alike else None
        if best is not None and each.machine.name not in seen:
            seen.add(each.machine.name)
            limit = best.rate / devices(each.machine)
            yield Reached(each.machine, min(speed.rate / speed.batch, limit), limit)


def _axes(asked: Question, device: str) -> dict[str, object]:
    """The axes of the reference on another device."""
    return {**asked.reference.speed.axes, "device": device}


def _row(machine: Machine, asked: Question, reached: Sequence[Reached], quality: Prediction) -> Elsewhere:
    age = ages.words(machine, asked.today)
    if why := fits(machine, host=asked.host, device=asked.device):
        return Elsewhere(kind="bounded", word="does not fit", machine=machine, age=age, reason=why)
    best = bound(asked.work, machine, is_loose=asked.loose)
    if best is None:
        what = machine.accelerator or "|".join(machine.cpu) or "its CPU"
        why = f"no peak of {what} is known for {' and '.join(asked.work.flops)}"
        return Elsewhere(kind="bounded", word="unknown", machine=machine, age=age, reason=why)
    if not quality.why_not:
        number = devices(machine)
        told = prediction.predict(reached, machine, best.rate / number)
        if not isinstance(told, str):
            rate = told.rate * asked.batch * number
            ends = (told.ci95[0] * asked.batch * number, told.ci95[1] * asked.batch * number)
            return Elsewhere(
                kind="predicted",
                word="estimate",
                machine=machine,
                age=age,
                rate=rate,
                latency=None,
                usd_per_million=formulas.per_million(machine.usd_per_hour, rate, asked.utilization),
                ci95=formulas.per_million_interval(machine.usd_per_hour, ends, asked.utilization),
                limit=best.limit,
                reason=f"{told.rate * number / best.rate:.0%} of its bound, as on {len(reached)} machines",
            )
    return _bounded(machine, asked, best, age)


def _bounded(machine: Machine, asked: Question, best: Bound, age: str) -> Elsewhere:
    """The best case of a machine, and whether it is good enough to try."""
    rate = best.rate * asked.batch
    least = formulas.per_million(machine.usd_per_hour, rate, asked.utilization)
    reference = asked.reference
    dearest = reference.ci95[1] if reference.ci95 else reference.usd_per_million
    late = next((each for each in asked.wanted if best.seconds > each.limit), None)
    what = f"not faster than {show(rate, '1/s')}, so not below {usd(least)} USD per 1 M"
    if late:
        what = f"no call is faster than {show(best.seconds, 's')}, which breaks {late.text}"
    elif least > dearest:
        what += f"; {usd(reference.usd_per_million)} was measured on {reference.machine}"
    return Elsewhere(
        kind="bounded",
        word="ruled out" if late or least > dearest else "open",
        machine=machine,
        age=age,
        rate=rate,
        latency=best.seconds,
        usd_per_million=least,
        limit=best.limit,
        reason=what,
    )
