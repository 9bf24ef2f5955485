"""Are the outputs numbers?"""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail on NaN or infinity: denormals and NaN can change speed, and the model is broken anyway."""
    outputs = case.details.outputs
    if outputs is None or outputs.finite is None:
        return None
    if outputs.finite:
        return Check("finite", "ok", "all outputs are finite")
    if case.details.inputs.get("finite"):
        sentence = (
            "the first call returns finite numbers, the last one NaN or infinity: calls change the model"
        )
        return Check("finite", "fail", sentence, "reset in each call the state that it changes")
    return Check(
        "finite",
        "fail",
        "the model returns NaN or infinity",
        "check weights, input values and dtype (try --dtype float32)",
    )
