"""Did calls have the threads that were asked for? `torch.set_num_threads` inside a model undoes them."""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail if they had another number."""
    had = case.details.outputs.threads if case.details.outputs is not None else None
    asked = case.axes.get("threads")
    if had is None or asked is None or had == asked:
        return None
    sentence = (
        f"--threads {asked} was given, {had} were used: the model sets the number of threads in its calls"
    )
    return Check("threads", "fail", sentence, f"--threads {had}   or take set_num_threads out of the model")
