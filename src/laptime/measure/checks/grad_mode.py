"""Did calls need another mode than inference mode to give what a plain call gives?"""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it: its number is not that of inference mode."""
    mode = str(case.details.inputs.get("grad", ""))
    if mode not in ("no_grad", "grad"):
        return None
    words = "under torch.no_grad" if mode == "no_grad" else "with gradients on"
    why = case.details.inputs.get("grad_why") or "as asked"
    return Check("grad_mode", "note", f"measured {words}: {why}", "--option grad=inference   insists")
