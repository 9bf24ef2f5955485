"""Gates of one script: the numerics of the script with a recipe against those of the script as it is.

That one is run twice, and in double precision or with rounded activations if the class of the recipe asks
for it. Every run of the script as it is happens once a session, when it is first needed."""

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
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.trial.messages import INCOMPLETE, CapturePlan, NumericsComparison

Rounding = Literal["bfloat16", "float16", "last_bits"]
"""The types that activations and their gradients are rounded to."""
DRAWS = 3  # simulations of rounding by which a gate is judged before it fails
STEPS, SLOW_STEPS = 3, 2  # captured steps, of a quick and of a slow script
SLOW = 1.5  # seconds of a step above which a script is slow
QUICK = 0.5  # seconds that a captured step should take; larger batches are cut
FEWEST_SAMPLES = 4  # samples below which no batch is cut
BATCHES = 64  # batches of the loader that are compared for a change of data, at most
LONGEST_DATA = 30.0  # seconds that loading these batches may take
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
        self._rounded: dict[tuple[Rounding, int], NumericsComparison | None] = {}

    def gate(self, recipe: Recipe, numerics: str) -> Gate:
        """The gate of a recipe. numerics: class of the newest change; the most far-reaching of the recipe's
        classes counts. Raises TrialFailed: the recipe does not run, or the script as it is does not."""
        classes = {numerics, numerics_of(recipe, self._loop_profile)}
        if not Path(self._file("base")).is_file():
            self._capture(Recipe(), write=self._file("base"))
        is_precise = "precision" not in classes
        reference = self._double if "reassociated" in classes and is_precise else None
        half: Rounding = "float16" if any("fp16" in name for name in recipe.names) else "bfloat16"
        judged = partial(self._judge, recipe, classes, reference, None if is_precise else half)
        gate = judged()
        if gate.word == "failed" and any(optimization.load(name).compiles for name in recipe.names):
            # Compiled code draws other random numbers: asked with those of eager code if it can matter.
            gate = judged(eager_draws=True)
        return gate

    def _judge(
        self,
        recipe: Recipe,
        classes: set[str],
        reference: str | None,
        half: Rounding | None,
        *,
        eager_draws: bool = False,
    ) -> Gate:
        rounded = self._roundings(half, 1)
        comparison = self._capture(
            recipe, compare=self._file("base"), reference=reference, eager_draws=eager_draws
        )
        is_of_data = any(optimization.load(name).needs & _OF_DATA for name in recipe.names)
        samples = self._samples(recipe) if is_of_data else None
        judged = partial(judge, classes, comparison, samples=samples, needs_samples=is_of_data)
        gate = judged(rounded=rounded)
        if gate.word != "passed":
            # How the script differs from itself only ever grants something: run if that can matter.
            samples_again = self._repeated_samples if is_of_data else None
            judged = partial(judged, again=self._repeated, samples_again=samples_again)
            gate = judged(rounded=rounded)
        if gate.word == "failed" and half is not None:
            # Draws of their own, run only if they can matter: one of them may have spared this tensor.
            gate = judged(rounded=self._roundings(half, DRAWS))
        for draws in (1, DRAWS):
            if gate.word == "failed" and gate.numerics == "reassociated":
                # As well: an activation near zero may have changed its sign, in one draw or in another.
                gate = judged(perturbed=self._roundings("last_bits", draws))
        return gate

    # The script as it is.

    @cached_property
    def _repeated(self) -> NumericsComparison | None:
        """Against its first run: the script's own non-determinism."""
        return self._capture(Recipe(), compare=self._file("base"))

    @cached_property
    def _double(self) -> str | None:
        """The file of its numerics in double precision; None if it does not run so."""
        with suppress(TrialFailed):
            self._capture(Recipe(), write=self._file("double"), double=True)
            return self._file("double") if Path(self._file("double")).is_file() else None
        return None

    def _roundings(self, rounding: Rounding | None, draws: int) -> tuple[NumericsComparison, ...]:
        """The effect of rounded activations alone, a draw each; empty if it does not run so."""
        keys = [(rounding, draw) for draw in range(draws)] if rounding else []
        for key in (key for key in keys if key not in self._rounded):
            self._rounded[key] = None
            with suppress(TrialFailed):
                capture = partial(self._capture, Recipe(), compare=self._file("base"))
                self._rounded[key] = capture(rounds=rounding, draw=key[1])
        return tuple(each for key in keys if (each := self._rounded[key]) is not None)

    # The loader alone.

    def _samples(self, recipe: Recipe) -> NumericsComparison | None:
        """Compare samples with the recipe to the script's own."""
        base = self._file("samples")
        if not Path(base).is_file():
            self._run(Recipe(), CapturePlan(write=base, samples=self._batches))
        return self._run(recipe, CapturePlan(compare=base, samples=self._batches))

    @cached_property
    def _repeated_samples(self) -> NumericsComparison | None:
        """The script's own, once more."""
        return self._samples(Recipe())

    # Trials.

    def _file(self, name: str) -> str:
        return str(self._home / f"{name}.pt")

    def _capture(self, recipe: Recipe, **settings: Any) -> NumericsComparison | None:
        """Capture steps on the captured batches; a comparison, where `compare` names a file.

        Only what others are compared with is written: captures of large models are large.

        Raises TrialFailed: it does not run."""
        batches, steps, most = self._file("capture"), self._steps, self._most_samples
        return self._run(recipe, CapturePlan(batches=batches, steps=steps, most=most, **settings))

    def _run(self, recipe: Recipe, capture: CapturePlan) -> NumericsComparison | None:
        began = self._runner.elapsed()
        with self._runner.start(recipe, mode="gate", capture=capture, settle=1, seed=0) as running:
            running.wait()
            result = self._runner.finish(running)
            comparison = running.document(NumericsComparison)
        self._runner.accounting.gate_trial = self._runner.elapsed() - began
        is_empty = comparison is None or not (comparison.steps or capture.samples)
        incomplete = next((note for note in result.notes if note.startswith(INCOMPLETE)), "")
        if is_empty and (running.hung or result.error or result.ended in ("raised", "died", "memory")):
            raise self._runner.failure(result, running)
        if is_empty and incomplete:
            raise TrialFailed("crashed", f"no step was captured: {incomplete.removeprefix(INCOMPLETE)}")
        return comparison
