"""The model as it is and the final folder, each recorded in a process of its own: what bounds a call of both.

Nothing that happens here fails a session: what could not be recorded says why.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from laptime.analysis.bounds import Recorded, bounds
from laptime.kit.units import show
from laptime.probes import machine
from laptime.probes.cpu import cpu
from laptime.probes.peaks import cpu_peak
from laptime.process.peer import Peer
from laptime.records.bounds import CallBounds, ModelBounds
from laptime.records.overview import Ceilings
from laptime.records.tuning import Measured
from laptime.tuning.inference.arm import answer_of
from laptime.tuning.inference.changes import form_of
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folders import built
from laptime.tuning.inference.recording import process
from laptime.tuning.inference.recording.readers import READERS
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed

SECONDS = 1.0
"""Seconds of calls in a process, about: half of them recorded."""
LONGER = 1.5
"""Times the seconds until an arm is ready that a recording takes, beside its calls."""
FEWEST = 8
"""Calls of a process, however long they are: to warm up, to see busy cores, and recorded."""
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
                known = known or of_cores(usable)
                made = recorded(evaluator, recipe)
                yield bounds(made, call, cores(usable), known)
                continue
        except KeyboardInterrupt:
            why = "the session was interrupted"
        except Exception as error:  # profilers of three runtimes: whatever they do, the gain is measured
            yield CallBounds(missing=f"the calls could not be recorded: {error}"[:300])
            continue
        yield CallBounds(missing=f"no calls were recorded: {why}")


def _call(evaluator: ModelEvaluator, recipe: Recipe, measured: Measured | None) -> float:
    """Seconds of a call that is not recorded: measured afresh, or on the way, or now.
    Raises TrialFailed: it does not run.
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
    runtime = "pytorch" if form == "as_is" else form_of(form).profiler
    if not runtime:
        raise TrialFailed("refused", f"nothing records what runs as {form}")
    evaluator.accounting.trials += 1
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as place:
        path = Path(place) / "recorded.json"
        about = _about(evaluator, recipe, folder, runtime, path)
        rows = READERS[runtime](path, about, is_compiled=form.startswith("packaged"))
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
    with Peer.start(words, cwd=folder if is_isolated else None) as peer:
        return answer_of(peer, evaluator.request.timeout, "a recording")


# All that usable cores can do: FLOP/s on paper, or of a product; bytes per second of a copy, as STREAM
# Copy counts them (McCalpin 1995). The bandwidth of a whole socket is far above what a part of its cores
# reaches, so it is timed. It lies when other programs use the memory meanwhile, or the last-level cache
# has more than BYTES.

BYTES, SAMPLES, SIZE = 2**27, 5, 2048


def cores(usable: float) -> float:
    """Cores that may work at the same time: of two threads of one core only one counts."""
    return min(usable, float(cpu().physical_cores or usable))


def of_cores(usable: float) -> Ceilings:
    """The ceilings of so many cores of this machine.

    Args:
        usable: CPUs that may be used, by affinity and quota.
    """
    peak = cpu_peak(cpu(), usable=usable)
    bandwidth = _copy(max(1, round(cores(usable))))
    copied = f"{show(bandwidth, 'B/s')} measured, a copy of {show(BYTES, 'B')}"
    if peak is not None:
        return Ceilings(
            device=peak.name, flops=peak.flops, bandwidth=bandwidth, source=f"{peak.note}; {copied}"
        )
    flops = _product()
    multiplied = f"{show(flops, 'FLOP/s')} measured, a product of {SIZE} x {SIZE}"
    return Ceilings(
        device="cores that no table has",
        flops={"float32": flops},
        bandwidth=bandwidth,
        source=f"{multiplied}; {copied}",
    )


def _copy(threads: int) -> float:
    sources = [np.ones(BYTES // threads // 4, np.float32) for _ in range(threads)]
    places = [np.zeros_like(each) for each in sources]
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(np.copyto, places, sources)))
    return 2 * sum(each.nbytes for each in sources) / seconds


def _product() -> float:
    left = np.ones((SIZE, SIZE), np.float32)
    return 2 * SIZE**3 / _best(lambda: left @ left)


def _best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls: what disturbs one only makes it slower."""
    seconds = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
