"""The `Evaluator` of a search over one model: folders are written, raced and gated."""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from msgspec import structs

from laptime.analysis.agreement import Agreement
from laptime.analysis.paired import spread
from laptime.kit.errors import LaptimeError, UsageError
from laptime.launch import fresh_call
from laptime.measure.recorded_calls import RecordedCalls
from laptime.records.tuning import Gate, GateCheck, GateWord
from laptime.tuning.gates.invariants import checked
from laptime.tuning.inference import metric
from laptime.tuning.inference.arm import Arm
from laptime.tuning.inference.building import write_folder
from laptime.tuning.inference.implementation import find_candidates, numerics_of
from laptime.tuning.inference.limits import word
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.sameness import sameness as judged
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed

BLOCK = 0.4
"""Seconds of timed calls in a block, about."""
FEWEST, MOST = 3, 200
"""Calls in a block."""
OF_ONE_PROCESS = 6
"""Rounds after which both sides get new processes."""
NOISE_BLOCKS = 9
"""Blocks of the model as it is that show its noise."""
LIMITS = 0.05
"""Share of the budget that is spent at most on the question whether one recipe keeps the limits."""
LONG = 4.0
"""Seconds of calls of one process that are timed for it, about."""
STARTED = 6.0
"""Seconds that an arm takes to be ready, before one was started."""


@dataclass
class Accounting:
    """What a session spent: seconds by activity, processes."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    trials: int = 0

    @contextmanager
    def spent_on(self, activity: str) -> Iterator[None]:
        """Count the time of the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[activity] += time.perf_counter() - began


@dataclass
class Timing:
    """All calls of a folder that were timed, and the largest peak of its processes."""

    seconds: list[float] = field(default_factory=list)
    peak: int = 0


class ModelEvaluator:
    """Evaluates recipes of one model; each is written once.

    Args:
        request: checked. folder: for all that is written.

    Attributes:
        surveyed: see `survey.survey`. recorded: what the model as it is makes of the inputs.
        gates, agreements: by recipe. loop_profile: of the model as it is.
        limits: that have to be kept. timings: by recipe, of whatever was timed on the way.

    Raises:
        UsageError: the model cannot be tuned. LaptimeError: it does not run.
    """

    def __init__(self, request: ModelRequest, folder: Path) -> None:
        self.request, self.folder = request, folder
        self.accounting = Accounting()
        self.loop_profile: LoopProfile | None = None
        self.gates: dict[Recipe, Gate] = {}
        self.agreements: dict[Recipe, Agreement] = {}
        self.limits = request.limits
        self.timings: dict[Recipe, Timing] = defaultdict(Timing)
        self._began = time.perf_counter()
        self._folders: dict[Recipe, Path] = {}
        self._forms: dict[Recipe, str] = {}
        self._refused: dict[Recipe, str] = {}
        self._ready = STARTED
        self._scores: list[float] | None = None
        self._calls, self._calibration = folder / "calls.npz", folder / "calibration.npz"
        with self.accounting.spent_on("diagnose"):
            self.surveyed = self._survey()
        self.recorded = RecordedCalls.load(self._calls)

    @property
    def is_file(self) -> bool:
        """The target is an ONNX file: nothing of it is PyTorch's."""
        return "onnx_file" in self.surveyed["facts"]

    @property
    def batch(self) -> int:
        """Items in a call."""
        return int(self.surveyed["batch"])

    def _survey(self) -> dict[str, Any]:
        request = self.request
        arguments = {"target": request.target, "batch": request.batch, "samples": request.inputs}
        paths = {"calls": str(self._calls), "calibration": str(self._calibration)}
        function = "laptime.tuning.inference.survey:survey"
        surveyed: dict[str, Any] = self._call(function, {**arguments, **paths})
        if surveyed["refused"]:
            raise UsageError(
                f"{self.request.target} cannot be tuned",
                why=surveyed["refused"],
                next=f"laptime bench {self.request.target}   measures it as it is",
            )
        return surveyed

    def _call(self, function: str, arguments: dict[str, Any]) -> Any:
        self.accounting.trials += 1
        return fresh_call.call(function, arguments, timeout=self.request.timeout)

    # The contract of a search

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return time.perf_counter() - self._began

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """A call under a recipe, and how much blocks of calls scatter.

        Raises:
            TrialFailed: it does not run.
        """
        began = self.elapsed()
        with self.accounting.spent_on("diagnose"), self.arm(recipe) as arm:
            self._ready = max(arm.ready, 0.1)
            calls = self.calls_in_block(arm.call)
            blocks = [self.figure(self.timed(recipe, arm, calls)) for _ in range(NOISE_BLOCKS)]
            peak = arm.peak
        noise = spread([log(after / before) for before, after in pairwise(blocks)])
        step = median(blocks)
        loop_profile = LoopProfile(
            step=step,
            shares={"forward": step},
            batch=self.batch,
            cpus=len(os.sched_getaffinity(0)),
            threads=int(self.surveyed["threads"]),
            facts=frozenset(self.surveyed["facts"]),
            peak=peak,
            noise=noise,
            seconds=self.elapsed() - began,
        )
        if self.loop_profile is None:
            self.loop_profile = loop_profile
        return loop_profile

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """What the catalogue has on top of a recipe."""
        request = self.request
        return find_candidates(
            loop_profile,
            recipe,
            goal=request.goal,
            allow=request.classes,
            only=tuple(request.only),
            skip=tuple(request.skip),
            block=max(BLOCK, FEWEST * loop_profile.step),
            start=self._ready,
        )

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Iterator[Round]:
        """Paired blocks of calls in random order; both processes live through some rounds (`fresh`: one).

        Raises:
            TrialFailed: a side does not run.
        """
        coin = random.Random(len(self._folders))  # noqa: S311
        process = 0
        while True:
            with self.accounting.spent_on("race"), self.arm(incumbent) as one, self.arm(candidate) as other:
                sides, recipes = (one, other), (incumbent, candidate)
                counts = [self.calls_in_block(side.call) for side in sides]
                for _ in range(1 if fresh else OF_ONE_PROCESS):
                    order = [0, 1] if coin.random() < 0.5 else [1, 0]
                    seconds = {
                        at: self.figure(self.timed(recipes[at], sides[at], counts[at])) for at in order
                    }
                    yield Round(seconds[1] / seconds[0], memory=other.peak / one.peak, process=process)
            process += 1

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Whether the folder computes what the model does, and keeps the limits that the incumbent keeps.

        Raises:
            TrialFailed: it does not run.
        """
        gate = self.sameness(candidate)
        if not self.limits or gate.word != "passed" or word(self.limit_checks(incumbent)) != "ok":
            return gate
        checks = self.limit_checks(candidate)
        sentences = [check.sentence for check in checks if check.outcome != "ok"]
        verdict: dict[str, GateWord] = {"ok": "passed", "fail": "failed", "unknown": "undecided"}
        return structs.replace(
            gate,
            word=verdict[word(checks)],
            reason=sentences[0] if sentences else gate.reason,
            checks=[*gate.checks, *checks],
        )

    def limit_checks(self, recipe: Recipe) -> list[GateCheck]:
        """Whether a recipe keeps the limits; it is timed further while that is open and there is time.

        Raises:
            TrialFailed: it does not run.
        """
        until = self.elapsed() + LIMITS * self.request.budget
        while True:
            timing = self.timings[self._built(recipe)]
            checks = self.limits.checks(timing.seconds, timing.peak) if timing.peak else []
            is_open = not checks or word(checks) == "unknown"
            if not self.limits or not is_open or (checks and self.elapsed() > until):
                return checks
            with self.accounting.spent_on("measure"), self.arm(recipe) as arm:
                self.timed(recipe, arm, max(FEWEST, min(self.limits.calls, round(LONG / arm.call))))

    def sameness(self, candidate: Recipe) -> Gate:
        """Whether the folder computes what the model does.

        Raises:
            TrialFailed: it does not run.
        """
        if candidate not in self.gates:
            with self.accounting.spent_on("gate"), self.arm(candidate) as arm:
                path = self.outputs_of(candidate)
                answer = arm.outputs(path)
            gate, agreement = judged(
                self.recorded,
                path,
                answer,
                numerics=numerics_of(candidate),
                precision=self.settings(candidate).get("precision", "float32"),
                more=[self._scored(path, answer["counts"])] if self.request.metric else [],
            )
            self.gates[candidate], self.agreements[candidate] = gate, agreement
        return self.gates[candidate]

    def _scored(self, outputs: Path, counts: list[int | str]) -> GateCheck:
        """The user's metric of a folder beside that of the model as it is, which is asked for once."""
        held = counts[: self.surveyed["samples"]]
        if not all(isinstance(count, int) for count in held):
            return checked("metric", "unknown", "a call of a sample failed")
        if self._scores is None:
            reference = self.folder / "reference-outputs.npz"
            calls = self.recorded.calls[: len(held)]
            arrays = {
                f"{at}_{place}": each
                for at, call in enumerate(calls)
                for place, each in enumerate(call.outputs)
            }
            np.savez(reference, **arrays)  # type: ignore[arg-type]
            self._scores = self._scores_of(reference, [len(call.outputs) for call in calls])
        return metric.judged(self._scores, self._scores_of(outputs, held))

    def _scores_of(self, outputs: Path, counts: list[Any]) -> list[float]:
        arguments = {"function": self.request.metric, "outputs": str(outputs), "counts": counts}
        found: list[float] = self._call(
            "laptime.tuning.inference.metric:scores", {**arguments, "structure": self.surveyed["outputs"]}
        )
        return found

    # Arms

    def timed(self, recipe: Recipe, arm: Arm, calls: int) -> list[float]:
        """Seconds of calls of an arm, which are kept.

        Raises:
            TrialFailed: one fails.
        """
        seconds, timing = arm.seconds(calls), self.timings[self._built(recipe)]
        timing.seconds.extend(seconds)
        timing.peak = max(timing.peak, arm.peak)
        return seconds

    def figure(self, seconds: list[float]) -> float:
        """What the goal looks at in a block: the median call, or the mean."""
        return median(seconds) if self.request.goal == "latency" else mean(seconds)

    def calls_in_block(self, call: float) -> int:
        """Calls that fill a block."""
        return min(MOST, max(FEWEST, round(BLOCK / max(call, 1e-6))))

    def arm(self, recipe: Recipe) -> Arm:
        """A recipe's folder in a new process.

        Raises:
            TrialFailed: the folder cannot be written, or does not run.
        """
        folder = self.written(recipe)
        self.accounting.trials += 1
        return self.arm_of(folder, self._calls, isolated=self.is_file or bool(self._built(recipe)))

    def arm_of(self, folder: Path, calls: Path, *, isolated: bool = True) -> Arm:
        """A folder in a new process, called with other recorded inputs.

        Raises:
            TrialFailed: it does not run.
        """
        return Arm(folder, calls, isolated=isolated, timeout=self.request.timeout, arrays=self.is_file)

    def _built(self, recipe: Recipe) -> Recipe:
        """Without the control, which changes nothing."""
        return recipe.without("identity")

    def adopt(self, recipe: Recipe, folder: Path, form: str) -> None:
        """Take a folder that was written before for that of a recipe."""
        self._folders[recipe], self._forms[recipe] = folder, form

    def outputs_of(self, recipe: Recipe) -> Path:
        """File of what a gated folder makes of the recorded inputs."""
        return self.folder / f"{self.written(recipe).name}-outputs.npz"

    def form(self, recipe: Recipe) -> str:
        """How a folder runs the model: a name of `forms/`."""
        return self._forms[self._built(recipe)]

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Settings of a written folder."""
        settings: dict[str, Any] = json.loads((self.written(recipe) / "recipe.json").read_text())["settings"]
        return settings

    def written(self, recipe: Recipe) -> Path:
        """The folder of a recipe; written when it is first wanted.

        Raises:
            TrialFailed: it cannot be written.
        """
        recipe = self._built(recipe)
        if recipe in self._refused:
            raise TrialFailed("refused", self._refused[recipe])
        if recipe not in self._folders:
            folder = self.folder / f"arm{len(self._folders) + len(self._refused)}"
            with self.accounting.spent_on("build"):
                self._write(recipe, folder)
            self._folders[recipe] = folder
        return self._folders[recipe]

    def _write(self, recipe: Recipe, folder: Path) -> None:
        if not recipe and not self.is_file:
            folder.mkdir()
            settings = {"target": self.request.target, "batch": self.batch}
            settings |= {"names": self.surveyed["names"], "calibration": str(self._calibration)}
            write_folder(folder, "as_is", settings, target=self.request.target, recipe=[])
            return
        arguments = {
            "target": self.request.target,
            "batch": self.batch,
            "varies": self.surveyed["varies"],
            "outputs": self.surveyed["outputs"],
            "recipe": recipe.to_json(),
            "calibration": str(self._calibration),
            "names": self.surveyed["names"],
            "folder": str(folder),
        }
        try:
            built = self._call("laptime.tuning.inference.building:build", arguments)
        except LaptimeError as error:
            built = {"refused": f"{error.what}: {error.why}"}
        if built["refused"]:
            self._refused[recipe] = built["refused"]
            raise TrialFailed("refused", built["refused"])
        self._forms[recipe] = built["form"]
