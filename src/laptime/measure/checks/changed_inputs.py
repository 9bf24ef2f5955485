"""Does a call change its own inputs, so that the next one would do other work?"""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it: each call got a fresh copy."""
    if not case.details.inputs.get("changed"):
        return None
    sentence = "a call changes its inputs: each got a fresh copy of them, outside the timed part"
    return Check("changed_inputs", "note", sentence, "in the function, copy inputs that must not change")
