"""The gate of a recipe, by trials: the script as it is twice, in double precision, and with the recipe.

The first three are run once a session, when they are first needed, and looked up from then on.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import numerics_of
from laptime.tuning.gates.verdict import judge
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.trial.messages import CapturePlan
from laptime.tuning.trial.numerics_comparison import NumericsComparison

if TYPE_CHECKING:
    from laptime.tuning.session.trial_runner import TrialRunner

STEPS = 3
SLOW_STEPS = 2
"""Of a script whose steps take seconds."""
SLOW = 1.5
QUICK = 0.5
"""Seconds that a captured step should take; the batches are cut to it."""
FEWEST_SAMPLES = 4
BATCHES = 64
"""That the loader alone gives, an epoch at most, when a change is one of data."""
LONGEST_DATA = 30.0
"""Seconds that these may take."""
_OF_DATA = frozenset({"loader", "map_dataset", "iterable_dataset", "accumulation"})


def gated(runner: TrialRunner, recipe: Recipe, numerics: str) -> Gate:
    """Whether the script with this recipe still trains the same.

    Args:
        numerics: class of the newest change; the most far-reaching of the recipe's is what counts.

    Raises:
        TrialFailed: it does not run, or the script as it is does not.
    """
    loop_profile = runner.loop_profile or LoopProfile()
    classes = {numerics, numerics_of(recipe, loop_profile)}
    references = _References(runner, loop_profile)
    asked: dict[str, Any] = {"compare": str(references.base())}
    if "reassociated" in classes and "precision" not in classes:
        double = references.double()
        asked["reference"] = str(double) if double else None
    rounded = references.rounded(_half(recipe)) if "precision" in classes else None
    comparison = references.captured(recipe, "candidate", **asked)
    of_data = _is_of_data(recipe)
    judged = partial(
        judge,
        classes,
        comparison,
        again=references.again(),
        rounded=rounded,
        samples=references.samples(recipe) if of_data else None,
        samples_again=references.samples_again() if of_data else None,
        needs_samples=of_data,
    )
    gate = judged()
    if gate.word == "failed" and gate.numerics == "reassociated":
        # A trial of its own, so only where it can matter: an activation near zero may have changed its sign.
        perturbed = references.rounded("last_bits")
        gate = judged(perturbed=perturbed) if perturbed is not None else gate
    return gate


def _half(recipe: Recipe) -> str:
    """The type that a recipe of class precision computes in."""
    return "float16" if any("fp16" in name for name in recipe.names) else "bfloat16"


def _is_of_data(recipe: Recipe) -> bool:
    return any(optimization.load(name).NEEDS & _OF_DATA for name in recipe.names)


class _References:
    """Captured numerics of the script as it is, kept in the runner's folder."""

    def __init__(self, runner: TrialRunner, loop_profile: LoopProfile) -> None:
        self._runner = runner
        self._home = runner.folder / "captures"
        self._home.mkdir(exist_ok=True)
        self._steps = SLOW_STEPS if loop_profile.step > SLOW else STEPS
        # Double precision has no fast kernels: a large batch is cut, the same for all.
        self._is_cut = loop_profile.step > QUICK and loop_profile.batch > FEWEST_SAMPLES
        self._most = max(FEWEST_SAMPLES, round(loop_profile.batch * QUICK / max(loop_profile.step, QUICK)))
        each = (loop_profile.loader_seconds or loop_profile.share("data") or 0.0) + 1e-3
        self._batches = max(4, min(BATCHES, int(LONGEST_DATA / each)))

    def base(self) -> Path:
        """The script as it is; captures batches and state on the way."""
        path = self._home / "base.pt"
        if not path.is_file():
            self.captured(Recipe(), "base")
        return path

    def rounded(self, kind: str) -> NumericsComparison | None:
        """The script as it is with its activations rounded: what that alone does to it."""
        found = self._runner.known.get(kind)
        if found is None:
            try:
                found = self.captured(Recipe(), kind, compare=str(self.base()), rounds=kind)
            except TrialFailed:
                return None
            self._runner.known[kind] = found
        return found

    def double(self) -> Path | None:
        """In double precision; None where the script cannot be run so."""
        path, failed = self._home / "double.pt", self._home / "double.failed"
        if not path.is_file() and not failed.is_file():
            try:
                self.captured(Recipe(), "double", double=True)
            except TrialFailed as error:
                failed.write_text(error.why)
        return path if path.is_file() else None

    def again(self) -> NumericsComparison | None:
        """The script as it is once more, against itself: its own non-determinism."""
        found = self._runner.known.get("again")
        if found is None:
            found = self.captured(Recipe(), "again", compare=str(self.base()))
            self._runner.known["again"] = found
        return found

    def samples(self, recipe: Recipe) -> NumericsComparison | None:
        """The loader alone, with the recipe, against the script's own."""
        base = self._home / "samples.pt"
        if not base.is_file():
            self._run(Recipe(), CapturePlan(write=str(base), samples=self._batches))
        return self._run(recipe, CapturePlan(compare=str(base), samples=self._batches))

    def samples_again(self) -> NumericsComparison | None:
        """The script's own loader once more."""
        found = self._runner.known.get("samples")
        if found is None:
            base = self._home / "samples.pt"
            found = self._run(Recipe(), CapturePlan(compare=str(base), samples=self._batches))
            self._runner.known["samples"] = found
        return found

    def captured(self, recipe: Recipe, name: str, **asked: Any) -> NumericsComparison | None:
        """Steps on the captured batches, compared with the base where one is named.

        Raises:
            TrialFailed: it does not run.
        """
        capture = CapturePlan(
            write=str(self._home / f"{name}.pt"),
            batches=str(self._home / "capture.pt"),
            steps=self._steps,
            most=self._most if self._is_cut else None,
            **asked,
        )
        return self._run(recipe, capture)

    def _run(self, recipe: Recipe, capture: CapturePlan) -> NumericsComparison | None:
        # Captures of large models are large: only the newest candidate's is kept, by its name.
        plan = self._runner.plan(recipe, mode="gate", capture=capture, settle=1, seed=0)
        with self._runner.run(plan) as running:
            running.wait()
            ended = self._runner.ended(running)
            comparison = running.document(NumericsComparison)
        if comparison is None and (running.hung or ended.ended in ("raised", "died", "memory")):
            raise self._runner.failure(ended, running)
        return comparison
