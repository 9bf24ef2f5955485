"""Public: does an extension keep its contract, and fakes to test against.

One function for each kind of extension; call it from one test:

    from laptime.testing import check_report

    def test_csv_keeps_the_contract() -> None:
        check_report("csv")
"""

from __future__ import annotations

from laptime.testing.backends import check_backend
from laptime.testing.conformance import (
    Broken,
    check_check,
    check_command,
    check_probe,
    check_report,
    check_target,
    documented,
)
from laptime.testing.optimizations import check_optimization
from laptime.testing.rules import check_rule

__all__ = [
    "Broken",
    "check_backend",
    "check_check",
    "check_command",
    "check_optimization",
    "check_probe",
    "check_report",
    "check_rule",
    "check_target",
    "documented",
]
