"""Was the model in training mode? Dropout, batch norms and others do other work there than in eval mode."""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it, with what eval mode would be."""
    share = case.details.outputs.in_eval if case.details.outputs is not None else None
    if share is None:
        return None
    words = "as long" if 0.95 < share < 1.05 else f"{share:.3g} times as long"
    return Check(
        "training_mode",
        "note",
        f"measured in training mode, as it was given; in eval mode a call takes {words}",
        "--option mode=eval   or call .eval() in the function",
    )
