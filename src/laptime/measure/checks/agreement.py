"""Does an exported model compute what the original computes? If not, its speed is that of another program.

Lies when: the inputs exercise only part of the model.
"""

from __future__ import annotations

from laptime.analysis.agreement import verdict
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check, Outcome
from laptime.records.environment import Environment
from laptime.records.plan import Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail when outputs are another program's; warn when rounding of the dtype does not explain them."""
    difference = case.details.get("outputs", {}).get("against_torch")
    if not difference:
        return None
    if "relative" not in difference:
        reason = difference.get("reason", "unknown")
        return _answer("fail", f"its outputs differ from the original's: {reason}")
    text = f"largest error {difference['max_error']:.2g} ({difference['relative']:.1g} of the outputs' scale)"
    text += f", cosine {difference['cosine']:.6f}"
    if difference.get("top1") is not None:
        text += f", top-1 the same in {percent(difference['top1'])}"
    word = verdict(difference, str(case.axes.get("dtype", "float32")))
    if word == "different":
        return _answer("fail", f"its outputs differ from the original's: {text}")
    if word == "close":
        return _answer("warn", f"its outputs are only close to the original's: {text}")
    # Near ties of an untrained classifier change places without an error.
    is_ranked = difference.get("top1") in (None, 1.0)
    return _answer("ok" if is_ranked else "note", f"its outputs agree with the original's: {text}")


def _answer(outcome: Outcome, sentence: str) -> Check:
    advice = "do not compare its speed; export it again or report it to the exporter"
    if outcome == "note":
        advice = "trained weights have fewer near ties than random ones"
    return Check("agreement", outcome, sentence, advice if outcome != "ok" else "")
