"""The records of a script's session: diagnoses and rungs; those of earlier sessions on this machine."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.kit.text import from_here
from laptime.kit.units import show
from laptime.records.environment import Environment
from laptime.records.tuning import Diagnosis, Rung, Suspect
from laptime.store import files, folder, index
from laptime.tuning.candidates import Choice, suspects
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import list_applied
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.search import ranking
from laptime.tuning.search.race import LONGEST
from laptime.tuning.time_accounting import TrialAccounting

SUSPECTS = 3  # suspects that a diagnosis names at most
_BOTTLENECKS = {
    "data": "waiting for data",
    "transfer": "copies to the device",
    "compute": "the model's own computing",
    "other": "what the script does beside the model",
}


def diagnosis(recipe: Recipe, loop_profile: LoopProfile, choice: Choice | None = None) -> Diagnosis:
    """The record of a loop profile; with a choice, it names what could save most."""
    likely = suspects(loop_profile, recipe, choice)[:SUSPECTS] if choice is not None else []
    return Diagnosis(
        recipe=list_applied(recipe),
        step=loop_profile.step,
        shares=loop_profile.shares,
        what_if=loop_profile.what_if,
        bound=loop_profile.bound,
        sentence=bound_by(loop_profile),
        syncs=[
            {"what": site.detail, "where": f"{from_here(site.file)}:{site.line}", "count": site.count}
            for site in loop_profile.syncs
        ],
        noise=loop_profile.noise,
        detectable=ranking.detectable(loop_profile.noise, LONGEST[-1]),
        batch=loop_profile.batch,
        peak=loop_profile.peak,
        utilization=utilization(loop_profile),
        facts=sorted(loop_profile.facts),
        notes=list(loop_profile.notes),
        suspects=[
            Suspect(label=str(each.change), title=each.title, saves=each.bound, suggests=is_only_suggested)
            for each, is_only_suggested in likely
        ],
    )


def bound_by(loop_profile: LoopProfile) -> str:
    """Name the bound of the step, in words."""
    bound, step = loop_profile.bound, loop_profile.step
    share = loop_profile.bottlenecks[bound] / step if step else 0.0
    return f"{share:.0%} of a step of {show(step, 's')} is {_BOTTLENECKS[bound]}"


def utilization(loop_profile: LoopProfile) -> float | None:
    """Share of the step that the device works, 0 to 1; None without an accelerator."""
    busy = loop_profile.details.get("busy")
    return min(1.0, busy / loop_profile.step) if busy is not None and loop_profile.step else None


# Rungs


def with_compile_time(rung: Rung, accounting: TrialAccounting) -> Rung:
    """The rung with the seconds of torch.compile, and the steps after which they are won back."""
    seconds = accounting.compiled_by.get(rung.label, 0.0)
    if not seconds:
        return rung
    pays_back = None
    if rung.verdict == "faster" and rung.step and rung.speedup and rung.speedup > 1:
        pays_back = round(seconds / (rung.step * (rung.speedup - 1)))
    return structs.replace(rung, compile_seconds=seconds, pays_back=pays_back)


def with_utilization(rung: Rung, evaluator: TrialEvaluator) -> Rung:
    """A kept rung with the device's share of the step, from the first diagnosis that has its change."""
    for recipe, loop_profile in evaluator.profiles.items():
        if rung.kept and rung.label in map(str, recipe):
            return structs.replace(rung, utilization=utilization(loop_profile))
    return rung


def with_suggested(ladder: list[Rung], suggested: list[Rung]) -> list[Rung]:
    """The ladder with the suggested rungs: those that could save most come first, the others last."""
    most = max((rung.bound or 0.0 for rung in ladder), default=0.0)
    first = [rung for rung in suggested if (rung.bound or 0.0) > most]
    return [*first, *ladder, *(rung for rung in suggested if rung not in first)]


# Earlier sessions


MOST = 20  # sessions that are read at most, the newest: each is a file of its own
KIND = frozenset({
    "cpu", "cuda", "mps", "xpu", "conv", "attention", "embedding", "batchnorm", "loader", "in_library",
    "workers", "autocast", "grad_scaler", "compiled",
})  # fmt: skip
"""Facts that two scripts must have in common to be of one kind: device, modules, batches, precision."""


def ladders(
    environment: Environment, facts: Collection[str], goal: str, root: Path | None = None
) -> Iterator[tuple[str, list[Rung]]]:
    """Id and ladder of earlier sessions, the newest first; a run that cannot be read is left out.
    environment: this machine, with the devices of the script. facts: of the script as it is. goal: of the
    session. root: the store; None for the usual one."""
    base = root or folder.home()
    lines = (line for line in index.listing(base)[0] if line.verb == "tune" and line.status != "running")
    for line in islice(lines, MOST):
        with suppress(UsageError):
            run = files.read(base / line.path)
            before = None if run.tuning is None else run.tuning.before
            if run.tuning is None or run.tuning.goal != goal or before is None or not before.facts:
                continue
            is_alike = KIND.isdisjoint(set(before.facts) ^ set(facts))
            if is_alike and _machine(run.environment) == _machine(environment):
                yield run.id, run.tuning.ladder


def _machine(environment: Environment) -> tuple[object, ...]:
    """Return the facts that distinguish machines: name, processors, and the models of the devices."""
    devices = sorted({device.model for device in environment.devices})
    return environment.machine, environment.cpu, environment.usable_cpus, devices
