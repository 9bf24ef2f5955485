"""Was it measured beside other code in one process?"""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note that a model from memory shares its process with whatever else runs in it."""
    if not case.details.in_process:
        return None
    return Check(
        "in_process",
        "note",
        "measured in the calling process, beside whatever else runs in it",
        "laptime bench file.py:function   measures in fresh processes",
    )
