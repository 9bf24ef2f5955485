"""Was the work done when the clock was read? A call that only starts the work seems to take no time.

Lies when: the framework's outputs do not say (JAX's and PyTorch's do), or a short call happens to be done."""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail when an output was seen to be still under way after the call and the wait for it."""
    if case.details.outputs is None or not case.details.outputs.pending:
        return None
    return Check(
        "synchronised",
        "fail",
        "the result was still being computed when the clock was read: nothing waited for it",
        "--backend jax for a JAX model; else wait for the result inside the function",
    )
