"""Is this number valid? One file a check.

Each file has `check(case, environment, plan) -> Check | None`, a pure function on records: `case` with its
labels, `plan` the run's effective settings. None means: nothing to say about this case. The words of this
contract can be imported from here."""

from laptime.kit.registry import load, names
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting

__all__ = ["Case", "Check", "Environment", "Setting", "run_all"]


def run_all(case: Case, environment: Environment, plan: dict[str, Setting]) -> list[Check]:
    """The answers of all checks that have something to say, worst first."""
    checks = [load("checks", name).check(case, environment, plan) for name in names("checks")]
    order = {"fail": 0, "warn": 1, "note": 2, "ok": 3}
    return sorted((check for check in checks if check is not None), key=lambda c: order[c.outcome])
