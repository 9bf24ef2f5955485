"""The model as it is and the final folder, each recorded in a process of its own: what bounds a call of both.

Nothing that happens here fails a session: what could not be recorded says why.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from laptime.analysis.bounds import Recorded, bounds
from laptime.kit.units import show
from laptime.probes import machine
from laptime.process.peer import Gone, Peer, Silent
from laptime.records.bounds import CallBounds, ModelBounds
from laptime.records.roofline import Ceilings
from laptime.records.tuning import Measured
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folders import built
from laptime.tuning.inference.recording import ceilings, process
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed

SECONDS = 1.0
"""Seconds of calls in a process, about: half of them recorded."""
LONGER = 1.5
"""Times the seconds until an arm is ready that a recording takes, beside its calls."""
FEWEST = 8
"""Calls of a process, however long they are: to warm up, to see busy cores, and recorded."""
RUNTIMES = {
    **dict.fromkeys(("as_is", "exported", "packaged", "packaged_int8"), "pytorch"),
    **dict.fromkeys(("onnx", "onnx_int8", "onnx_dynamic_int8"), "onnx_runtime"),
    **dict.fromkeys(("openvino", "openvino_int8"), "openvino"),
    "tensorrt": "pytorch",
}
"""Whose profiler sees a form."""

Sides = tuple[Measured | None, Measured | None]
"""What was measured afresh of the model as it is and of the final set."""


def model_bounds(evaluator: ModelEvaluator, final: Recipe, setup: Setup, measured: Sides) -> ModelBounds:
    """What bounds a call before and after; no after where nothing was kept.

    Args:
        setup: of the final set; a call of several instances or of another batch is not what is recorded.
        measured: both sides, measured afresh; None where they were not.
    """
    is_plain = setup.instances == 1 and not setup.threads and setup.batch == evaluator.batch
    before, after = measured
    sides = [(Recipe(), before)]
    sides += [(final, after if is_plain else None)] if built(final) else []
    with evaluator.accounting.spent_on("record"):
        made = list(_each(evaluator, sides))
    return ModelBounds(before=made[0], after=made[1] if len(made) > 1 else None)


def seconds_to_record(evaluator: ModelEvaluator) -> float:
    """Seconds that recording both sides takes, about."""
    calls = evaluator.timings[Recipe()].seconds
    return 2 * _seconds(evaluator, median(calls) if calls else 0.0)


def _each(evaluator: ModelEvaluator, sides: list[tuple[Recipe, Measured | None]]) -> Iterator[CallBounds]:
    """One after the other; after Ctrl-C none of those that are left."""
    known: Ceilings | None = None
    why = "" if evaluator.device == "cpu" else f"ceilings of {evaluator.device} are not looked for"
    for recipe, measured in sides:
        try:
            call = _call(evaluator, recipe, measured)
            why = why or _no_time(evaluator, call)
            if not why:
                usable = machine.environment().usable_cpus
                known = known or ceilings.of_cores(usable)
                made = recorded(evaluator, recipe)
                yield bounds(made, call, ceilings.cores(usable), known)
                continue
        except KeyboardInterrupt:
            why = "the session was interrupted"
        except Exception as error:  # profilers of three runtimes: whatever they do, the gain is measured
            yield CallBounds(missing=f"the calls could not be recorded: {error}"[:300])
            continue
        yield CallBounds(missing=f"no calls were recorded: {why}")


def _call(evaluator: ModelEvaluator, recipe: Recipe, measured: Measured | None) -> float:
    """Seconds of a call that is not recorded: measured afresh, or on the way, or now.

    Raises:
        TrialFailed: it does not run.
    """
    alone = evaluator.timings[built(recipe)].seconds if evaluator.raced.instances == 1 else []
    samples = measured.samples if measured is not None else [alone]
    if not any(samples):  # calls of several instances at once do not count
        with evaluator.arm(recipe) as arm:
            return arm.call
    return median(chain.from_iterable(samples))


def _no_time(evaluator: ModelEvaluator, call: float) -> str:
    """Why nothing is recorded any more; "" where there is time."""
    left = evaluator.request.budget - evaluator.elapsed()
    needed = _seconds(evaluator, call)
    if needed <= left:
        return ""
    return f"it takes {show(needed, 's')}, {show(max(0.0, left), 's')} of the budget were left"


def _seconds(evaluator: ModelEvaluator, call: float) -> float:
    """Seconds that one recording takes, about."""
    return LONGER * evaluator.ready + max(SECONDS, FEWEST * call)


def recorded(evaluator: ModelEvaluator, recipe: Recipe) -> Recorded:
    """Some calls of a recipe's folder as its runtime's profiler has seen them.

    Raises:
        TrialFailed: it does not run, or nothing was recorded. LookupError, ValueError: what was recorded is
            not what its reader knows.
    """
    folder, form = evaluator.folders.written(recipe), "as_is"
    if evaluator.folders.is_isolated(recipe):
        form = evaluator.folders.form(recipe)
    runtime = RUNTIMES.get(form)
    if runtime is None:
        raise TrialFailed("refused", f"nothing records what runs as {form}")
    evaluator.accounting.trials += 1
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as place:
        path = Path(place) / "recorded.json"
        about = _about(evaluator, recipe, folder, runtime, path)
        reader = importlib.import_module(f"{__package__}.{runtime}")
        rows = reader.rows(path, about, is_compiled=form.startswith("packaged"))
    if not any(row.total_ns for row in rows):
        raise TrialFailed("refused", f"{about['recorder']} saw no operator")
    return Recorded(
        rows, about["calls"], about["seconds"], about["threads"], about["busy"], about["recorder"]
    )


def _about(
    evaluator: ModelEvaluator, recipe: Recipe, folder: Path, runtime: str, path: Path
) -> dict[str, Any]:
    """The answer of the program that records; see `process`."""
    is_isolated = evaluator.folders.is_isolated(recipe)
    python = evaluator.folders.python(recipe) or sys.executable
    program = [python, "-I" if is_isolated else "-P", "-B", process.__file__]
    kind = "arrays" if evaluator.folders.takes_arrays(recipe) else "tensors"
    words = [*program, str(folder), str(evaluator.calls), kind, runtime, str(path), str(SECONDS)]
    place = folder if is_isolated else None
    timeout = evaluator.request.timeout
    with Peer.start(words, cwd=place) as peer:
        try:
            told: dict[str, Any] = json.loads(peer.receive(timeout))
        except Silent:
            raise TrialFailed("hung", f"no recording within {timeout:.0f} s") from None
        except Gone as gone:
            raise TrialFailed("crashed", gone.words.line or f"it {gone.words.how}") from None
    return told
