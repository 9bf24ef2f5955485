"""Does a folder compute what the model does? Its outputs for recorded inputs become checks, checks a word.

Inputs of the measurement may have been looked at while the folder was written; the others, another batch size
among them, may not: they decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec import structs

from laptime.analysis.agreement import Agreement, Call, judged, measured
from laptime.measure.recorded_calls import RecordedCalls, compared
from laptime.records.tuning import Gate, GateCheck, Numerics
from laptime.tuning.gates.invariants import checked
from laptime.tuning.gates.verdict import gate_of

Arrays = list[np.ndarray[Any, Any]]
REFERENCE = "the model as it is"


class CallFailed(Exception):
    """A call raised in its process."""


def sameness(
    recorded: RecordedCalls,
    path: Path,
    answer: dict[str, Any],
    *,
    numerics: str,
    precision: str,
    more: Sequence[GateCheck] = (),
) -> tuple[Gate, Agreement]:
    """The gate of a folder, and the errors that it rests on.

    Args:
        recorded: what the model as it is made of the inputs. path, answer: of `Arm.outputs`.
        numerics: class of the recipe: `exact` has to be equal bit for bit, `reassociated` within the rounding
            of float32, `precision` within that of `precision`.
        more: checks that were made elsewhere.
    """
    made = outputs_in(path, answer)
    replayed = iter(made)

    def run(given: Arrays) -> Arrays:
        outputs = next(replayed)
        if isinstance(outputs, str):
            raise CallFailed(outputs)
        return outputs

    agreement = compared(run, recorded, against=REFERENCE, dtype="float32")
    checks = [
        _finite(recorded, made),
        *_outputs(agreement, recorded, made, numerics, precision),
        _untouched(answer),
        _repeats(answer),
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


def outputs_in(path: Path, answer: dict[str, Any]) -> list[Arrays | str]:
    """Outputs of each call, or what it raised.

    Args:
        path, answer: of `Arm.outputs`.
    """
    with np.load(path, allow_pickle=False) as stored:
        return list(_made(answer["counts"], stored))


def _made(counts: list[int | str], stored: Any) -> Iterator[Arrays | str]:
    for at, count in enumerate(counts):
        yield count if isinstance(count, str) else [stored[f"{at}_{place}"] for place in range(count)]


def _finite(recorded: RecordedCalls, made: list[Arrays | str]) -> GateCheck:
    for call, outputs in zip(recorded.calls, made, strict=True):
        for ours, reference in zip([] if isinstance(outputs, str) else outputs, call.outputs, strict=False):
            if np.isfinite(reference).all() and not np.isfinite(ours).all():
                return checked("finite", "fail", "outputs are infinite or NaN where the model's are not")
    return checked("finite", "ok", "outputs are finite where the model's are")


def _outputs(
    agreement: Agreement, recorded: RecordedCalls, made: list[Arrays | str], numerics: str, precision: str
) -> list[GateCheck]:
    """Errors over all calls; where they are too large, those of the first call tell which inputs show it."""
    dtype = precision if numerics == "precision" else "float32"
    judgement = judged(agreement, dtype)
    word, sentence = judgement.word, judgement.sentence
    worst = max((error.rms for error in agreement.outputs), default=None)
    if numerics == "exact" and any(error.absolute for error in agreement.outputs):
        return [checked("outputs", "fail", f"not equal bit for bit: {sentence}", worst, 0.0)]
    if word == "same":
        return [checked("outputs", "ok", sentence, worst)]
    if word == "unknown":
        return [checked("outputs", "unknown", sentence, worst)]
    return [checked(_where(recorded, made, dtype), "fail", sentence, worst)]


def _where(recorded: RecordedCalls, made: list[Arrays | str], dtype: str) -> str:
    """The check that fails: on the measured inputs, on others only, on another batch size only."""
    own = recorded.calls[0].batch

    def is_right(places: list[int]) -> bool:
        pairs = [(made[at], recorded.calls[at]) for at in places]
        calls = [Call(ours, call.outputs, call.batch) for ours, call in pairs if not isinstance(ours, str)]
        if len(calls) < len(pairs):
            return False
        found = measured(calls, against=REFERENCE, rounding=recorded.rounding)
        return not calls or judged(found, dtype).word in ("same", "unknown")

    same_size = [at for at, call in enumerate(recorded.calls) if call.batch == own]
    if not is_right([0]):
        return "outputs"
    return "held_out_inputs" if not is_right(same_size) else "other_batch_size"


def _untouched(answer: dict[str, Any]) -> GateCheck:
    if answer["changed"]:
        return checked("inputs", "fail", "a call changes the tensors that it is given")
    return checked("inputs", "ok", "calls leave their inputs alone")


def _repeats(answer: dict[str, Any]) -> GateCheck:
    if answer.get("overwritten"):
        return checked("repeated", "fail", "a later call writes over the outputs of an earlier one")
    if not answer["repeats"]:
        return checked("repeated", "fail", "the first inputs give other outputs after other calls")
    return checked("repeated", "ok", "the first inputs give the same outputs again, bit for bit")
