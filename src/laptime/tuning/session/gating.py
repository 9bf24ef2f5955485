"""The gate of a recipe, by trials: does the script with it still train the same?

The numerics of the script with the recipe are compared with those of the script as it is, run twice, and in
double precision or with rounded activations where the class of the recipe asks for it. Every run of the
script as it is happens once a session, when it is first needed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import numerics_of
from laptime.tuning.gates.verdict import judge
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.trial.messages import CapturePlan
from laptime.tuning.trial.numerics_comparison import NumericsComparison

Rounding = Literal["bfloat16", "float16", "last_bits"]
"""What activations and their gradients are rounded to."""

STEPS, SLOW_STEPS = 3, 2
"""Captured steps, of a quick and of a slow script."""
SLOW = 1.5
"""Seconds of a step above which a script is slow."""
QUICK = 0.5
"""Seconds that a captured step should take; larger batches are cut."""
FEWEST_SAMPLES = 4
"""Samples below which no batch is cut."""
BATCHES = 64
"""Batches of the loader that are compared for a change of data, at most."""
LONGEST_DATA = 30.0
"""Seconds that loading these batches may take."""
_OF_DATA = frozenset({"loader", "map_dataset", "iterable_dataset", "accumulation"})


class GateRunner:
    """Runs the gates of a session, with the results of the script as it is as its cache."""

    def __init__(self, runner: TrialRunner, loop_profile: LoopProfile) -> None:
        self._runner, self._loop_profile = runner, loop_profile
        self._home = runner.folder / "captures"
        self._home.mkdir(exist_ok=True)
        step = loop_profile.step
        self._steps = SLOW_STEPS if step > SLOW else STEPS
        # Double precision has no fast kernels: a large batch is cut, the same for all.
        is_cut = step > QUICK and loop_profile.batch > FEWEST_SAMPLES
        cut = max(FEWEST_SAMPLES, round(loop_profile.batch * QUICK / max(step, QUICK)))
        self._most_samples = cut if is_cut else None
        seconds = (loop_profile.loader_seconds or loop_profile.share("data") or 0.0) + 1e-3
        self._batches = max(4, min(BATCHES, int(LONGEST_DATA / seconds)))
        self._rounded: dict[Rounding, NumericsComparison | None] = {}

    def gate(self, recipe: Recipe, numerics: str) -> Gate:
        """The gate of a recipe.

        Args:
            numerics: class of the newest change; the most far-reaching of the recipe's classes counts.

        Raises:
            TrialFailed: the recipe does not run, or the script as it is does not.
        """
        classes = {numerics, numerics_of(recipe, self._loop_profile)}
        self._base()
        reference = None
        if "reassociated" in classes and "precision" not in classes:
            reference = self._double
        rounded = self._rounding(_half(recipe)) if "precision" in classes else None
        comparison = self._capture(recipe, "candidate", compare=self._file("base"), reference=reference)
        is_of_data = any(optimization.load(name).NEEDS & _OF_DATA for name in recipe.names)
        judged = partial(
            judge,
            classes,
            comparison,
            again=self._repeated,
            rounded=rounded,
            samples=self._samples(recipe) if is_of_data else None,
            samples_again=self._repeated_samples if is_of_data else None,
            needs_samples=is_of_data,
        )
        gate = judged()
        if gate.word == "failed" and gate.numerics == "reassociated":
            # A trial of its own, run only where it can matter: an activation near zero may have changed sign.
            perturbed = self._rounding("last_bits")
            gate = judged(perturbed=perturbed) if perturbed is not None else gate
        return gate

    # The script as it is.

    def _base(self) -> None:
        """Captures batches and the initial state, too."""
        if not Path(self._file("base")).is_file():
            self._capture(Recipe(), "base")

    @cached_property
    def _repeated(self) -> NumericsComparison | None:
        """Against its first run: the script's own non-determinism."""
        return self._capture(Recipe(), "again", compare=self._file("base"))

    @cached_property
    def _double(self) -> str | None:
        """The file of its numerics in double precision; None where it does not run so."""
        with suppress(TrialFailed):
            self._capture(Recipe(), "double", double=True)
            return self._file("double") if Path(self._file("double")).is_file() else None
        return None

    def _rounding(self, rounding: Rounding) -> NumericsComparison | None:
        """The effect of rounded activations alone; None where it does not run so."""
        if self._rounded.get(rounding) is None:
            try:
                self._rounded[rounding] = self._capture(
                    Recipe(), rounding, compare=self._file("base"), rounds=rounding
                )
            except TrialFailed:
                return None
        return self._rounded[rounding]

    # The loader alone.

    def _samples(self, recipe: Recipe) -> NumericsComparison | None:
        """With the recipe, against the script's own."""
        base = self._file("samples")
        if not Path(base).is_file():
            self._run(Recipe(), CapturePlan(write=base, samples=self._batches))
        return self._run(recipe, CapturePlan(compare=base, samples=self._batches))

    @cached_property
    def _repeated_samples(self) -> NumericsComparison | None:
        """The script's own, once more."""
        return self._run(Recipe(), CapturePlan(compare=self._file("samples"), samples=self._batches))

    # Trials.

    def _file(self, name: str) -> str:
        return str(self._home / f"{name}.pt")

    def _capture(self, recipe: Recipe, name: str, **settings: Any) -> NumericsComparison | None:
        """Capture steps on the captured batches; a comparison, where `compare` names a file.

        Raises:
            TrialFailed: it does not run.
        """
        # Captures of large models are large: those of candidates share a name, so only the newest stays.
        plan = CapturePlan(
            write=self._file(name),
            batches=self._file("capture"),
            steps=self._steps,
            most=self._most_samples,
            **settings,
        )
        return self._run(recipe, plan)

    def _run(self, recipe: Recipe, capture: CapturePlan) -> NumericsComparison | None:
        with self._runner.start(recipe, mode="gate", capture=capture, settle=1, seed=0) as running:
            running.wait()
            result = self._runner.finish(running)
            comparison = running.document(NumericsComparison)
        if comparison is None and (running.hung or result.ended in ("raised", "died", "memory")):
            raise self._runner.failure(result, running)
        return comparison


def _half(recipe: Recipe) -> Rounding:
    """The type that a recipe of class precision computes in."""
    return "float16" if any("fp16" in name for name in recipe.names) else "bfloat16"
