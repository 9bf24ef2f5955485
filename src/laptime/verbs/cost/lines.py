"""A line a measured speed, and one line against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from laptime.pricing import formulas
from laptime.records.cost import Interval, Line, Machine, Saving, Speed
from laptime.records.run import Run
from laptime.verbs.cost.machines import share_of
from laptime.verbs.cost.request import CostRequest

_TRAINS = ("sample", "step", "item", "call")


def line(speed: Speed, machine: Machine, request: CostRequest) -> Line:
    """What a speed costs on its machine."""
    share = share_of(speed, machine)
    price = machine.usd_per_hour * share
    training = None
    if request.samples is not None and speed.unit in _TRAINS:
        training = formulas.training(price, speed.rate, request.samples, request.epochs, speed.ci95)
    monthly = formulas.monthly(price, speed.rate, request.rate) if request.rate is not None else None
    return Line(
        speed=speed,
        machine=machine.name,
        usd_per_hour=price,
        share=share,
        usd_per_million=formulas.per_million(price, speed.rate, request.utilization),
        ci95=formulas.per_million_interval(price, speed.ci95, request.utilization),
        units_per_usd=formulas.per_usd(price, speed.rate, request.utilization),
        usd_per_month=formulas.per_month(price),
        training=training,
        monthly=monthly,
    )


def with_cheapest(lines: Sequence[Line]) -> list[Line]:
    """The same lines, the cheapest of each run marked."""
    best: dict[str, Line] = {}
    for each in lines:
        run = each.speed.run
        if run not in best or each.usd_per_million < best[run].usd_per_million:
            best[run] = each
    return [structs.replace(each, cheapest=any(each is other for other in best.values())) for each in lines]


def savings(runs: Sequence[Run], lines: Sequence[Line]) -> list[Saving]:
    """Before against after: the two halves of a tuning session, or two runs.

    Of two runs, cases of the same key are compared; where none is in both, the cheapest of each.
    """
    if len(runs) == 1:
        by_label = {each.speed.case: each for each in lines}
        tuning = runs[0].tuning
        if tuning is None or not {"as it is", "tuned"} <= {*by_label}:
            return []
        gain = tuning.speedup
        around = gain.ci95 if gain else None
        return [_saving(by_label["as it is"], by_label["tuned"], around, paired=gain is not None)]
    if len(runs) != 2 or runs[0].id == runs[1].id:
        return []
    before, after = ([each for each in lines if each.speed.run == run.id] for run in runs)
    pairs = [(a, b) for a in before for b in after if a.speed.case == b.speed.case and _alike(a, b)]
    if not pairs:
        cheapest = [min(side, key=lambda each: each.usd_per_million) for side in (before, after) if side]
        pairs = [(cheapest[0], cheapest[1])] if len(cheapest) == 2 and _alike(*cheapest) else []
    return [_saving(a, b, _apart(a, b), paired=False) for a, b in pairs]


def _alike(a: Line, b: Line) -> bool:
    """Whether their units mean the same."""
    of_one = {"call", "item"}
    return a.speed.unit == b.speed.unit or {a.speed.unit, b.speed.unit} == of_one


def _apart(before: Line, after: Line) -> Interval:
    """Bounds of the ratio where neither was measured beside the other: from end to end."""
    if before.ci95 is None or after.ci95 is None or not before.ci95[0] or not after.ci95[0]:
        return None
    return before.ci95[0] / after.ci95[1], before.ci95[1] / after.ci95[0]


def _saving(before: Line, after: Line, ci95: Interval, *, paired: bool) -> Saving:
    ratio = before.usd_per_million / after.usd_per_million
    word: Literal["cheaper", "dearer", "unclear"] = "unclear"
    if ci95 is not None and (ci95[0] > 1 or ci95[1] < 1):
        word = "cheaper" if ci95[0] > 1 else "dearer"
    a, b = before.monthly, after.monthly
    c, d = before.training, after.training
    return Saving(
        before=_name(before),
        after=_name(after),
        usd_before=before.usd_per_million,
        usd_after=after.usd_per_million,
        ratio=ratio,
        ci95=ci95,
        word=word,
        paired=paired,
        usd_per_month=a.usd - b.usd if a and b else None,
        usd_per_training=c.usd - d.usd if c and d else None,
    )


def _name(of: Line) -> str:
    return of.speed.case if of.speed.at == "training" else f"{of.speed.run}: {of.speed.label}"
