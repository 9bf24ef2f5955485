"""Did calls return before their work was done: a generator, a coroutine, a future? The rest is timed, too."""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it: the rest of the work is in the number."""
    if not case.details.inputs.get("lazy"):
        return None
    sentence = (
        "a call returns before its work is done (a generator, coroutine or future): timed with all of it"
    )
    return Check("lazy", "note", sentence, "to time the first part only, call the code that makes it")
