"""Does it compute what the original, and other implementations of the model, compute? If not, its speed lies.

Every output tensor is looked at, for several inputs and batch sizes; `analysis.agreement` has the limits.

Lies when: the inputs exercise only part of the model."""

from laptime.analysis.agreement import Judgement, Word, judge, precision_of
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.check import Outcome

_OUTCOMES: dict[Word, Outcome] = {"different": "fail", "close": "warn", "unknown": "warn", "same": "ok"}
"""Worst first."""
_WORDS: dict[Word, str] = {
    "different": "differ from those of",
    "close": "are only close to those of",
    "unknown": "cannot be shown to agree with those of",
    "same": "agree with those of",
}
_NEXT: dict[Word, str] = {
    "different": "do not compare its speed; export or compile it again, or report it",
    "close": "see whether a lower precision than the requested one was used (TF32, float16)",
    "unknown": "give inputs and trained weights on which the outputs depend",
    "same": "",
}


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail when the errors are not what precision explains, warn when they are near or nothing is known."""
    outputs = case.details.outputs
    stored = (outputs.against_torch if outputs else None, case.details.outputs_compared)
    found = [each for each in stored if each is not None]
    if not found:
        return None
    held = case.details.known_model.dtypes
    dtype = precision_of(str(case.axes.get("dtype", "float32")), held)
    judgements: dict[str, Judgement] = {each.against: judge(each, dtype) for each in found}
    worst = min((judgement.word for judgement in judgements.values()), key=list(_OUTCOMES).index)
    alike = {against: judgement for against, judgement in judgements.items() if judgement.word == worst}
    largest = max(alike.values(), key=lambda judgement: judgement.share)
    text = f"its outputs {_WORDS[worst]} {' and '.join(alike)}: {largest.sentence}"
    return Check("agreement", _OUTCOMES[worst], text, _NEXT[worst])
