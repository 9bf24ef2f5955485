"""Judgements on a training of several ranks: trust, what costs most, and the price of an epoch."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec import structs

from laptime.analysis.paired import LEAST
from laptime.analysis.ranks import rank_rows
from laptime.kit.errors import LaptimeError
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.case import Case
from laptime.records.check import Check, Finding
from laptime.records.environment import Environment
from laptime.records.run import Run
from laptime.records.scale import RATE
from laptime.rules import arrivals
from laptime.verbs.cost.request import CostRequest
from laptime.verbs.cost.run import cost

CROWDED = 0.25  # share of the CPUs that others had, above which no job ran as it would alone
APART = 1.5  # times the samples that a step, or an epoch, should have
LOUD = 0.1  # share of a step


def checks(case: Case, run: Run) -> list[Check]:
    """Enough jobs, CPUs for all ranks, ranks that exchange something, and the batch that the word says."""
    known, series, base = case.details.ranks, case.find(RATE.tag), rank_rows(run.cases)[0].case
    jobs, cpus = len(series.samples) if series else 0, run.environment.usable_cpus
    ranks, threads = case.instances, int(case.axes["threads"] or 1)
    crowd = (known and known.crowd) or ranks
    few = Check("jobs", "warn", f"only {count(jobs, 'job')}: too few for an interval", f"--jobs {LEAST}")
    made = [few if jobs < LEAST else Check("jobs", "ok", f"{jobs} fresh jobs")]
    if crowd * threads > cpus:
        sentence = f"{crowd} ranks of {count(threads, 'thread')} share {cpus:g} CPUs: they take turns"
        sentence += ", so this is not what they would do with CPUs of their own"
        made.append(
            Check("cpus", "warn", sentence, f"measure at most {max(1, cpus // threads):g} ranks there")
        )
    whole = base.details.ranks
    if known is None or whole is None or base is case:
        return made
    if known.exchange is not None and not known.exchange.collectives:
        sentence = "the ranks exchanged nothing in the traced steps: each trains for itself"
        made.append(Check("exchange", "fail", sentence, "model = DistributedDataParallel(model)"))
    if case.axes["scaling"] == "strong" and known.samples > APART * whole.samples:
        sentence = f"ranks do not share a batch: a step has {known.samples:g} samples, not {whole.samples:g}"
        made.append(Check("batch", "fail", sentence, "laptime scale --scaling weak"))
    elif case.axes["scaling"] == "weak" and known.samples * APART < whole.samples * ranks / base.instances:
        sentence = f"the script itself divides its batch: a step has {known.samples:g} samples, as in strong"
        made.append(Check("batch", "note", f"{sentence} scaling"))
    return made


def crowd(others: Sequence[float], run: Run) -> list[Check]:
    """Whether other programs used the CPUs meanwhile. others: how many, of each job."""
    used, cpus = fmean(others or [0.0]), run.environment.usable_cpus
    sentence = f"other programs used {used:.1f} of {cpus:g} CPUs meanwhile: ranks waited for them"
    return [Check("crowd", "warn", sentence, "laptime doctor")] if used >= CROWDED * cpus else []


def alike(machines: Mapping[str, Environment]) -> list[Check]:
    """Whether machines that train together are of one kind, and have one torch."""
    kinds = {name: each.hardware for name, each in machines.items()}
    versions = {name: each.libraries.get("torch", "none") for name, each in machines.items()}
    made = []
    for noun, of in (("kinds", kinds), ("versions of torch", versions)):
        if (number := len({*of.values()})) > 1:
            told = ", ".join(f"{name} {which}" for name, which in of.items())
            sentence = f"the machines are of {number} {noun}: the slowest sets the pace ({told})"
            made.append(Check("alike", "warn", sentence, "--machines NAME,...   of one kind"))
    return made


def price(run: Run, usd_per_hour: float | None) -> tuple[list[Case], list[Check]]:
    """The cases with the price of an epoch, where it is known; and why it is not."""
    epochs = [known.epoch for row in rank_rows(run.cases) if (known := row.case.details.ranks)]
    if not epochs or not epochs[0]:
        return [], []
    asked = CostRequest(usd_per_hour=usd_per_hour, samples=epochs[0])
    try:
        lines = {line.speed.case: line.training for line in cost([run], asked).lines}
    except LaptimeError as error:
        again = f"laptime cost {run.id} --samples {epochs[0]:g} --usd-per-hour 4"
        return [], [Check("price", "note", error.what, again)]
    priced = []
    for case in run.cases:
        if (training := lines.get(case.key)) and (known := case.details.ranks):
            known = structs.replace(known, usd=training.usd_per_epoch, usd_ci95=training.ci95)
            priced.append(structs.replace(case, details=structs.replace(case.details, ranks=known)))
    return priced, []


def findings(run: Run) -> list[Finding]:
    """Communication that nothing hides, ranks that are late and why, and data that every rank reads."""
    made: list[Finding] = []

    def find(kind: str, sentence: str, change: str, **evidence: object) -> None:
        kind, text = f"scale/{kind}", f"{row.name}: {sentence}"
        found = Finding(kind=kind, severity="advice", sentence=text, evidence=evidence, change=change)
        made.append(structs.replace(found, cases=[row.case.key]))

    rows = rank_rows(run.cases)
    whole = rows[0].case.details.ranks if rows else None
    for row in rows[1:]:
        known = row.case.details.ranks
        if known is None or whole is None:
            continue
        if (seen := known.exchange) and seen.exposed_share > LOUD:
            time = show(seen.exposed_ns / 1e9, "s")
            sentence = f"only communication runs {time} of a traced step ({percent(seen.exposed_share)})"
            sentence += f", {percent(seen.waiting)} of it waiting for the last rank" if seen.waiting else ""
            change = "a larger batch per rank, or accumulate gradients under model.no_sync()"
            find("communication", sentence, change, exposed_s=seen.exposed_ns / 1e9, waiting=seen.waiting)
        for late in seen.stragglers[:1] if seen else []:
            sentence = arrivals(late) + (f"; {late.why}" if late.why else "")
            find("straggler", sentence, "give every rank the same work", rank=late.rank, why=late.why)
        if row.scaling == "weak" and known.epoch and whole.epoch and known.epoch > APART * whole.epoch:
            sentence = (
                f"every rank reads the whole training set, {known.epoch / whole.epoch:.2g} times the samples"
            )
            find("whole-data", sentence, "DataLoader(data, sampler=DistributedSampler(data))")
    return made
