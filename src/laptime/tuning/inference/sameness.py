"""Does a folder compute what the model does? Its outputs for recorded inputs become checks, checks a word.

Inputs of the measurement may have been looked at while the folder was written; the others, another batch size
among them, may not: they decide. `--metric eval.py:accuracy` may say more: what outputs are worth."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import numpy as np
from msgspec import structs

from laptime.analysis.agreement import ASKS, LIMITS, Call, judge, measure
from laptime.analysis.student_t import t_quantile
from laptime.kit.errors import LaptimeError, TargetError
from laptime.kit.text import count
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls, compare
from laptime.records.details import Agreement
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED
from laptime.records.tuning import Gate, GateCheck, Numerics, OutputSameness
from laptime.tuning.gates.invariants import report
from laptime.tuning.gates.verdict import gate_of
from laptime.tuning.inference.draft import restructure, words_of
from laptime.tuning.inference.samples import call_user

Arrays = list[np.ndarray[Any, Any]]
REFERENCE = "the model as it is"


def sameness(
    recorded: RecordedCalls,
    path: Path,
    answer: dict[str, Any],
    *,
    numerics: str,
    precision: str,
    more: Sequence[GateCheck] = (),
    about: Mapping[str, Any] | None = None,
) -> tuple[Gate, Agreement]:
    """The gate of a folder, and the errors that it rests on.

    Args:
        recorded: what the model as it is made of the inputs. path, answer: of `Arm.outputs`.
        numerics: class of the recipe: `reassociated` is within the rounding of float32, `precision` within
            that of `precision`. An `exact` one that is not equal bit for bit is held to be `reassociated`: a
            graph of torch.export may order sums in another way than the model itself.
        more: checks that were made elsewhere.
        about: names and types of the model's outputs, see `survey.survey`; None: they are not looked at.
    """
    samples = about.get("samples", 0) if about else 0
    recorded, made, more = _drop_calls(recorded, outputs_in(path, answer, about), more, precision, samples)
    replayed = iter(made)

    def run(given: Arrays) -> Arrays:
        outputs = next(replayed)
        if isinstance(outputs, str):
            raise RuntimeError(outputs)
        return outputs

    arrays = (*recorded.calls[0].inputs, *recorded.calls[0].outputs)
    is_double = {each.dtype.name for each in arrays if each.dtype.kind == "f"} == {"float64"}
    # Else it computes in float32, whatever goes in and comes out.
    is_double = is_double and 0 < max(recorded.rounding, default=0.0) < LIMITS["float64"].rms
    dtype = "float64" if is_double else (about or {}).get("precision", "float32")
    agreement = compare(run, recorded, against=REFERENCE, dtype=dtype)
    if numerics == "exact" and any(error.absolute for error in agreement.outputs):
        numerics = "reassociated"
    both = zip(made, recorded.calls, strict=True)
    pairs = (zip(ours, call.outputs, strict=False) for ours, call in both if not isinstance(ours, str))
    kind = precision if numerics == "precision" else agreement.dtype
    is_weighed = ("metric", KEPT) in [(each.name, each.outcome) for each in more]
    is_finite = all(np.isfinite(one).all() or not np.isfinite(other).all() for one, other in chain(*pairs))
    text = "finite wherever the model's are" if is_finite else "infinite or NaN, but the model's are not"
    checks = [
        *(_kinds(answer, about) if about and about["types"] and "types" in answer else ()),
        report("finite", KEPT if is_finite else BROKEN, f"outputs are {text}"),
        *_outputs(agreement, recorded, made, kind, is_weighed=is_weighed),
        *(() if is_weighed else _masks(recorded, made, kind)),
        *_calls({**answer, "changed": answer["changed"] and not (about or {}).get("changes")}),
        *more,
    ]
    gate = Gate(numerics=cast(Numerics, numerics), steps=len(recorded.calls))
    return with_checks(gate, checks), agreement


def with_checks(gate: Gate, checks: Sequence[GateCheck]) -> Gate:
    """A gate with further checks, which may change its word."""
    gate = gate_of(gate.numerics, gate.steps, [*gate.checks, *checks])
    if gate.word == "passed":
        gate = structs.replace(gate, reason=f"{len(gate.checks)} checks on {gate.steps} recorded calls")
    return gate


def outputs_in(
    path: Path, answer: dict[str, Any], about: Mapping[str, Any] | None = None
) -> list[Arrays | str]:
    """Outputs of each call, or what it raised; those of a dict in the order of the model's. path, answer: of
    `Arm.outputs`. about: see `sameness`."""
    with np.load(path, allow_pickle=False) as stored:
        made = [
            parts if isinstance(parts, str) else [stored[f"{index}_{place}"] for place in range(parts)]
            for index, parts in enumerate(answer["counts"])
        ]
    ours, theirs = answer.get("names") or [], (about["outputs"] if about else None) or []
    if not any(ours) or ours == theirs or set(ours) != set(theirs):
        return made
    order = [ours.index(name) for name in theirs]
    return [each if isinstance(each, str) else [each[at] for at in order] for each in made]


FARTHER, QUIETER = 1.5, 0.1
"""Times the largest number of the first inputs at which others leave the range of a calibration by these."""


def _drop_calls(
    recorded: RecordedCalls, made: list[Arrays | str], more: Sequence[GateCheck], precision: str, samples: int
) -> tuple[RecordedCalls, list[Arrays | str], list[GateCheck]]:
    """Without the optional calls that were refused, as the folder takes fewer lengths, and in int8 without
    those that laptime made to leave the range of the calibration's inputs, if they have one: a check each
    tells."""
    checks, calls = list(more), recorded.calls
    refused = {at for at in recorded.optional if isinstance(made[at], str)}
    own = [n for n, x in enumerate(calls[0].inputs) if x.dtype.kind in "fc" and x.size and np.ptp(x)]
    sizes = [[np.abs(call.inputs[at]).max(initial=0) for at in own] for call in calls]
    far = {
        at
        for at in range(samples, len(calls) if precision == "int8" else 0)
        for one, other in zip(sizes[at], sizes[0], strict=True)
        if not (QUIETER * other <= one <= FARTHER * other or isinstance(made[at], str))
    }
    if refused:
        text = f"{count(len(refused), 'length')} that the model takes: refused with a sentence"
        checks.append(report("lengths", KEPT, text))
    if far:
        both = [Call(cast(Arrays, made[at]), calls[at].outputs, calls[at].batch) for at in far]
        worst = max((error.rms for error in measure(both, against=REFERENCE).outputs), default=math.inf)
        text = f"int8 has the range of its calibration: RMS error {worst:.1g} far beyond and far below"
        checks.append(report("ranges", KEPT, text, worst))
    kept = [at for at in range(len(made)) if at not in refused | far]
    left = replace(recorded, calls=[calls[at] for at in kept], optional=[])
    return left, [made[at] for at in kept], checks


def _kinds(answer: dict[str, Any], about: Mapping[str, Any]) -> Iterator[GateCheck]:
    """Names and types of the outputs, if they are others; the order of a dict is none."""
    ours, theirs = answer["names"], about["outputs"]
    is_dict = any(theirs or ()) and any(ours or ())
    if set(ours) != set(theirs) if is_dict else ours != theirs:
        text = f"outputs are {words_of(ours)}, the model's {words_of(theirs)}"
        yield report("names", BROKEN, text)
        return
    made = dict(zip(ours if is_dict else range(len(answer["types"])), answer["types"], strict=False))
    named = zip(theirs if is_dict else range(len(about["types"])), about["types"], strict=True)
    if wrong := [f"{made.get(name, 'missing')} for {each}" for name, each in named if made.get(name) != each]:
        yield report("types", BROKEN, f"an output has another type: {', '.join(wrong)}")


def _outputs(
    agreement: Agreement, recorded: RecordedCalls, made: list[Arrays | str], dtype: str, *, is_weighed: bool
) -> list[GateCheck]:
    """Errors over all calls; if they are too large, those of the first call tell which inputs show it.
    is_weighed: a metric is as good."""
    word, sentence, share = judge(agreement, dtype)
    worst = max((error.rms for error in agreement.outputs), default=None)
    if word == "same":
        return [report("outputs", KEPT, sentence, worst)]
    if word == "unknown":
        return [report("outputs", KEPT if share > 1 and is_weighed else UNDECIDED, sentence, worst)]
    return [report(_where(agreement, recorded, made, dtype), BROKEN, sentence, worst)]


OF_MASKED, LEAST_MASKED = 4.0, 0.04
"""Times the error of the measured inputs, and of the limit, that one may be where only a mask is another."""


def _masks(recorded: RecordedCalls, made: list[Arrays | str], dtype: str) -> Iterator[GateCheck]:
    """In few bits errors may be within those of rounding though a mask has no effect: then they are far above
    those that the same inputs have behind the first mask."""
    first, errors = recorded.calls[0], list[float]()
    for ours, call in zip(made, recorded.calls, strict=True):
        if isinstance(ours, str) or dtype in ("float32", "float64"):
            return
        changed = [both for both in zip(call.inputs, first.inputs, strict=True) if not np.array_equal(*both)]
        if not errors or (len(changed) == 1 and np.isin(changed[0][0], (0, 1)).all()):
            found = measure([Call(ours, call.outputs, call.batch)], against=REFERENCE).outputs
            errors.append(max((each.rms for each in found if not each.exact), default=0.0))
    if max(errors) > max(OF_MASKED * errors[0], LEAST_MASKED * LIMITS[dtype].rms):
        text = f"RMS error {max(errors):.1g} behind another mask, {errors[0]:.1g} behind the first one"
        yield report("held_out_inputs", UNDECIDED, f"{text}: {ASKS}", max(errors))


def _where(agreement: Agreement, recorded: RecordedCalls, made: list[Arrays | str], dtype: str) -> str:
    """The check that fails: on the measured inputs, on others only, on another batch size only."""

    def is_right(places: list[int]) -> bool:
        pairs = [(made[at], recorded.calls[at]) for at in places]
        calls = [Call(ours, call.outputs, call.batch) for ours, call in pairs if not isinstance(ours, str)]
        if len(calls) < len(pairs):
            return False
        found = measure(calls, against=REFERENCE, dtype=agreement.dtype, rounding=recorded.rounding)
        return not calls or judge(found, dtype).word in ("same", "unknown")

    same_size = [index for index, call in enumerate(recorded.calls) if call.batch == recorded.calls[0].batch]
    if not is_right([0]):
        return "outputs"
    return "held_out_inputs" if not is_right(same_size) else "other_batch_size"


def _calls(answer: dict[str, Any]) -> Iterator[GateCheck]:
    """Effects of calls on inputs and outputs, and on each other."""
    is_kept, wrong = not answer.get("overwritten"), "a later call overwrites the outputs of an earlier one"
    if is_kept:
        is_kept, wrong = answer["repeats"], "the first inputs give other outputs after other calls"
    gaps, same = "from memory with gaps", "the first inputs give the same outputs"
    for name, kept, right, text in (
        ("inputs", not answer["changed"], "calls leave their inputs alone", "a call changes its inputs"),
        ("layout", answer.get("laid", True), f"{same} {gaps}", f"inputs {gaps} give other outputs"),
        ("repeated", is_kept, f"{same} again, bit for bit", wrong),
    ):
        yield report(name, KEPT if kept else BROKEN, right if kept else text)
    for name, how in (("late", "one after the other"), ("threads", "by several threads at once")):
        made, wrong = answer.get(name, (0, ""))
        if made:
            text = f"one of {made} calls {how}: {wrong}" if wrong else f"{made} calls {how} give the same"
            yield report(name, BROKEN if wrong else KEPT, text)


MARGIN = 0.01  # share of the model's own mean that may be lost
CONFIDENCE = 0.975  # of each end of the interval
_ENOUGH = 2  # pairs from which on there is an interval


def scores(*, function: str, outputs: str, counts: list[int], structure: list[str] | None) -> list[float]:
    """Score outputs with the user's function; called in a process of its own.
    function: `FILE.py:FUNCTION`. outputs: npz file of arrays named CALL_PLACE, as `arm_process` writes.
    counts: tensors of each call. structure: see `Draft.outputs`.
    Raises TargetError: it returned something else than numbers. UserCodeError: it raised."""
    import torch

    parts = [list(map(torch.from_numpy, each)) for each in outputs_in(Path(outputs), {"counts": counts})]
    value = call_user(function, [restructure(part, structure) for part in parts])
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


@dataclass
class UserMetric:
    """The user's metric of folders beside that of the model as it is.
    Raises LaptimeError: it raised, or gave no scores, for the outputs of the model as it is."""

    function: str  # `FILE.py:FUNCTION`, or "" for none
    recorded: RecordedCalls  # the first calls are those of the samples
    surveyed: dict[str, Any]  # see `survey.survey`
    folder: Path  # for files
    call: Callable[[str, dict[str, Any]], Any]  # runs a function in a process of its own

    def __post_init__(self) -> None:
        self._samples = self.surveyed["samples"]
        if self.function:
            outputs = self.folder / "reference-outputs.npz"
            self._reference = self._scores(outputs, store(self.recorded.calls[: self._samples], outputs))

    def checks(self, outputs: Path, counts: list[int | str]) -> list[GateCheck]:
        """Whether a folder is as good; none without a metric. outputs, counts: see `arm_process.outputs`."""
        held = counts[: self._samples]
        if not self.function:
            return []
        if not all(isinstance(count, int) for count in held):
            return [report("metric", UNDECIDED, "a call of a sample failed")]
        try:
            return [as_good(self._reference, self._scores(outputs, held))]
        except LaptimeError as error:
            return [report("metric", BROKEN, f"{error.what}: {error.why}")]

    def _scores(self, outputs: Path, counts: Sequence[int | str]) -> list[float]:
        arguments = {"function": self.function, "outputs": str(outputs), "counts": list(counts)}
        arguments["structure"] = self.surveyed["outputs"]
        made: list[float] = self.call("laptime.tuning.inference.sameness:scores", arguments)
        return made


def store(calls: Sequence[RecordedCall], path: Path) -> list[int]:
    """Writes recorded outputs as `arm_process` does; the number of tensors of each call."""
    arrays = {
        f"{at}_{place}": output for at, call in enumerate(calls) for place, output in enumerate(call.outputs)
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return [len(call.outputs) for call in calls]


def as_good(reference: Sequence[float], tuned: Sequence[float]) -> GateCheck:
    """Whether the tuned model is as good. reference, tuned: scores of the model as it is and of the tuned
    one, in pairs."""
    if len(reference) != len(tuned):
        text = f"{len(tuned)} scores, {len(reference)} of the model as it is"
        return report("metric", BROKEN, text)
    mean = fmean(reference)
    differences = [after - before for before, after in zip(reference, tuned, strict=True)]
    change, allowed, reach = fmean(differences), 0.0 - MARGIN * abs(mean), 0.0
    told = f"{mean:.4g} as it is, {mean + change:.4g} tuned"
    if (pairs := len(differences)) >= _ENOUGH:  # half of the interval of the mean (Student)
        reach = t_quantile(CONFIDENCE, pairs - 1) * stdev(differences) / math.sqrt(pairs)
        told += f": {change:+.3g} [{change - reach:+.3g}, {change + reach:+.3g}] on {pairs} scores"
    if change - reach >= allowed:
        return report("metric", KEPT, told, change, allowed)
    is_worse = change + reach < 0 and change < allowed
    more = "" if is_worse else "; more samples would decide"
    return report("metric", BROKEN if is_worse else UNDECIDED, told + more, change, allowed)


def sameness_of(agreement: Agreement | None) -> list[OutputSameness]:
    """The errors of each output as records."""
    names = ("output", "rms", "largest", "absolute", "cosine", "top1")
    return [
        OutputSameness(**{name: getattr(error, name) for name in names}, worst=error.worst + 1)
        for error in (agreement.outputs if agreement else [])
    ]
