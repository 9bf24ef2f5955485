"""`verify FOLDER/recipe.json`: does a tuned model still hold, here and now?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from laptime.kit.errors import UserCodeError
from laptime.records.event import FindingAdded, GainMeasured, Listener, ignore
from laptime.records.finding import Finding
from laptime.records.run import Run
from laptime.records.tuning import Gate, Measured
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import folder_file, model_record
from laptime.tuning.inference.confirmation import confirmed
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folder_file import FolderFile
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.session.verify import VerifyRequest
from laptime.tuning.session.work_folder import work_folder


def verify_model(request: VerifyRequest, emit: Listener = ignore) -> Run:
    """Time the folder against the model as it is in new processes, and compare their outputs again.

    Returns:
        The run, of verb `verify`; its `tuning` has both sides, the gain and the gate as they are now.

    Raises:
        UsageError: the folder is not whole, or its model cannot be loaded. UserCodeError: the model fails.
    """
    live = LiveRun("verify", emit)
    place = request.recipe.expanduser().absolute()
    file = folder_file.read(place)
    of_model = _request_of(file, request)
    check(of_model)
    recipe = _recipe_of(file)
    with work_folder("verify-model") as folder:
        live.say("looking at the model", 0.0, request.budget)
        evaluator = ModelEvaluator(of_model, folder)
        evaluator.folders.adopt(recipe, place.parent, file.form)
        model_record.start(live, of_model, evaluator)
        tuning = model_record.empty(of_model, evaluator)
        try:
            loop_profile = evaluator.diagnose(Recipe())
        except TrialFailed as failed:
            raise UserCodeError(
                f"{file.target} does not run as it is", why=failed.why, next=f"laptime bench {file.target}"
            ) from failed
        fields = {"before": model_record.diagnosis(Recipe(), loop_profile), "ended": "complete"}
        fields |= {"recipe": file.recipe, "recipe_path": str(request.recipe)}
        fields |= _compared_and_timed(evaluator, place.parent, file, live, loop_profile.noise)
        model = tuning.model
        assert model is not None
        if isinstance(final := fields.get("final"), Measured):
            model = model_record.with_limits(model, evaluator, final)
        model = structs.replace(
            model,
            form=file.form,
            folder=str(place.parent),
            needs=folder_file.needs(file.form),
            calls=len(evaluator.recorded.calls),
            outputs=model_record.sameness_of(evaluator.agreements.get(recipe)),
        )
        spent = {"trials": evaluator.accounting.trials, "seconds_by": dict(evaluator.accounting.seconds)}
        tuning = structs.replace(tuning, model=model, **fields, **spent)
        return model_record.finish(live, evaluator, tuning)


def _request_of(file: FolderFile, request: VerifyRequest) -> ModelRequest:
    """The options of the session that has handed the folder back, as far as they are asked again."""
    return ModelRequest(
        target=file.target,
        goal=file.goal,
        batch=0 if file.inputs else file.batch,
        device=file.device,
        python=request.python or file.python,
        inputs=file.inputs,
        metric=file.metric,
        slo=file.slo,
        max_memory=file.max_memory,
        budget=request.budget,
        timeout=request.timeout,
        name=request.name,
        save=request.save,
        origins=request.origins,
    )


def _compared_and_timed(
    evaluator: ModelEvaluator, folder: Path, file: FolderFile, live: LiveRun, noise: float
) -> dict[str, Any]:
    """Fields of the record: gate, both sides and gain, as far as the folder still runs."""
    recipe, budget = _recipe_of(file), evaluator.request.budget
    fields: dict[str, Any] = {}
    try:
        live.say("comparing outputs", 0.2, 0.8 * budget)
        serve = file.serve
        setup = Setup(serve.instances, serve.threads, serve.batch or evaluator.batch)
        fields["gate"] = evaluator.sameness_at(recipe, setup.batch)
        live(FindingAdded(_since_then(evaluator, folder, file)))
        live.say("measuring in new processes", 0.4, 0.6 * budget)
        for sides in confirmed(evaluator, recipe, setup, until=budget, noise=noise):
            fields |= dict(zip(("baseline", "final", "speedup"), sides, strict=True))
        live(GainMeasured(sides[0], sides[1]))
    except TrialFailed as failed:
        fields["gate"] = Gate(word="failed", reason=f"the folder does not run any more: {failed.why}")
    return fields


def _recipe_of(file: FolderFile) -> Recipe:
    return Recipe(tuple(Change(change.name, change.options) for change in file.recipe))


def _since_then(evaluator: ModelEvaluator, folder: Path, file: FolderFile) -> Finding:
    """Whether it still gives the confirmed outputs bit for bit, and the gain of that day.

    Raises:
        TrialFailed: it does not run.
    """
    now = evaluator.folder / "now.npz"
    with evaluator.arm_of(_recipe_of(file), folder, folder / "calls.npz") as arm:
        arm.outputs(now)
    with (
        np.load(now, allow_pickle=False) as ours,
        np.load(folder / "outputs.npz", allow_pickle=False) as then,
    ):
        is_equal = set(ours) == set(then) and all(ours[key].tobytes() == then[key].tobytes() for key in then)
    outputs = "the confirmed outputs, bit for bit" if is_equal else "other outputs than the confirmed ones"
    was = f"{file.speedup.value:.2f}x" if file.speedup else "not measured"
    return Finding(
        kind="tune/verified",
        severity="info" if is_equal else "advice",
        sentence=f"on the recorded inputs it gives {outputs}; its gain was {was}",
        evidence={"bit_for_bit": is_equal, "was": file.speedup.value if file.speedup else None},
    )
