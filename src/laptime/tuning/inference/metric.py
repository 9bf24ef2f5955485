"""A metric of the user's, `--metric eval.py:accuracy`: is it as good with the tuned model?

The function takes a list of outputs, one for each of the first samples of `--inputs`, in their order, as the
model gives them. It returns scores, one a sample or one an item, or one number for all; more is better.

Scores are compared in pairs: two models that are wrong on the same samples differ by nothing, however much
samples differ from each other. The test is one of non-inferiority (Schuirmann 1987): the metric is kept where
the lower end of the interval of the mean difference lies above -MARGIN of the model's own mean. One number
has no interval: its difference itself is held against the margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from laptime.analysis.student_t import t_quantile
from laptime.kit.errors import LaptimeError, TargetError
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.records.tuning import GateCheck
from laptime.tuning.gates.invariants import checked
from laptime.tuning.inference import user_function

MARGIN = 0.01
"""Share of the model's own mean that may be lost."""
CONFIDENCE = 0.975
"""Of each end of the interval."""
_ENOUGH = 2
"""Pairs from which on there is an interval."""


def scores(*, function: str, outputs: str, counts: list[int], structure: list[str] | None) -> list[float]:
    """What the function makes of outputs; called in a process of its own.

    Args:
        function: `FILE.py:FUNCTION`. outputs: npz file of arrays named CALL_PLACE, as `arm_process` writes.
        counts: tensors of each call. structure: see `Draft.outputs`.

    Raises:
        TargetError: it returned something else than numbers. UserCodeError: it raised.
    """
    import numpy as np
    import torch

    with np.load(Path(outputs), allow_pickle=False) as stored:
        parts = [
            [torch.from_numpy(stored[f"{at}_{place}"]) for place in range(count)]
            for at, count in enumerate(counts)
        ]
    value = user_function.called(function, [_structured(part, structure) for part in parts])
    try:
        found = [float(each) for each in np.atleast_1d(np.asarray(value, dtype=float)).ravel()]
    except (TypeError, ValueError):
        found = []
    if not found or not all(map(math.isfinite, found)):
        raise TargetError(
            f"{function} returned no scores",
            why=f"it returned {type(value).__name__}" if not found else "some are infinite or NaN",
            next="return a list of numbers, one a sample, or one number; more is better",
        )
    return found


class UserMetric:
    """The user's metric of folders beside that of the model as it is.

    Args:
        function: `FILE.py:FUNCTION`, or "" for none. recorded: the first calls are those of the samples.
        surveyed: see `survey.survey`. folder: for files. call: runs a function in a process of its own.

    Raises:
        LaptimeError: it raised, or gave no scores, for the outputs of the model as it is.
    """

    def __init__(
        self,
        function: str,
        recorded: RecordedCalls,
        surveyed: dict[str, Any],
        folder: Path,
        call: Callable[[str, dict[str, Any]], Any],
    ) -> None:
        self._function, self._call = function, call
        self._samples, self._structure = surveyed["samples"], surveyed["outputs"]
        if function:
            outputs = folder / "reference-outputs.npz"
            self._reference = self._scores(outputs, stored(recorded.calls[: self._samples], outputs))

    def checks(self, outputs: Path, counts: list[int | str]) -> list[GateCheck]:
        """Whether a folder is as good; none without a metric.

        Args:
            outputs, counts: see `arm_process.outputs`.
        """
        held = counts[: self._samples]
        if not self._function:
            return []
        if not all(isinstance(count, int) for count in held):
            return [checked("metric", "unknown", "a call of a sample failed")]
        try:
            return [judged(self._reference, self._scores(outputs, held))]
        except LaptimeError as error:
            return [checked("metric", "fail", f"{error.what}: {error.why}")]

    def _scores(self, outputs: Path, counts: Sequence[int | str]) -> list[float]:
        arguments = {"function": self._function, "outputs": str(outputs), "counts": list(counts)}
        arguments["structure"] = self._structure
        made: list[float] = self._call("laptime.tuning.inference.metric:scores", arguments)
        return made


def stored(calls: Sequence[RecordedCall], path: Path) -> list[int]:
    """Writes recorded outputs as `arm_process` does; the number of tensors of each call."""
    import numpy as np

    arrays = {
        f"{at}_{place}": each for at, call in enumerate(calls) for place, each in enumerate(call.outputs)
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return [len(call.outputs) for call in calls]


def _structured(parts: list[Any], structure: list[str] | None) -> Any:
    if structure is None:
        return parts[0]
    return dict(zip(structure, parts, strict=True)) if structure else tuple(parts)


def judged(reference: Sequence[float], tuned: Sequence[float]) -> GateCheck:
    """Whether the tuned model is as good.

    Args:
        reference, tuned: scores of the model as it is and of the tuned one, in pairs.
    """
    if len(reference) != len(tuned):
        text = f"{len(tuned)} scores, {len(reference)} of the model as it is"
        return checked("metric", "fail", text)
    mean = fmean(reference)
    differences = [after - before for before, after in zip(reference, tuned, strict=True)]
    change, allowed = fmean(differences), 0.0 - MARGIN * abs(mean)
    reach = _reach(differences)
    told = f"{mean:.4g} as it is, {mean + change:.4g} tuned"
    if len(differences) >= _ENOUGH:
        told += f": {change:+.3g} [{change - reach:+.3g}, {change + reach:+.3g}] on {len(differences)} scores"
    if change - reach >= allowed:
        return checked("metric", "ok", told, change, allowed)
    is_worse = change + reach < 0 and change < allowed
    more = "" if is_worse else "; more samples would decide"
    return checked("metric", "fail" if is_worse else "unknown", told + more, change, allowed)


def _reach(differences: Sequence[float]) -> float:
    """Half of the interval of their mean (Student); 0 where there is one only, or where all are equal."""
    if len(differences) < _ENOUGH:
        return 0.0
    error = stdev(differences) / math.sqrt(len(differences))
    return t_quantile(CONFIDENCE, len(differences) - 1) * error
