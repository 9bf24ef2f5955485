"""Did other batch sizes run in the same process?"""

from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it on the CPU, where memory that a large batch leaves behind makes small ones faster."""
    others = case.details.shared_process - 1
    if others < 1 or case.axes.get("device") != "cpu":
        return None
    return Check(
        "shared_process",
        "note",
        f"measured in one process with {others} other batch "
        f"{'size' if others == 1 else 'sizes'}: memory that they leave in the allocator can change its speed",
        f"--batch {case.batch}   measures it in a process of its own",
    )
