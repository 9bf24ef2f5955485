"""Public: does an extension keep its contract, and fakes to test against.

One function for each kind of extension; call it from one test:

    from laptime.testing import check_report

    def test_csv_keeps_the_contract() -> None:
        check_report("csv")"""

from laptime.testing.backends import check_backend as check_backend
from laptime.testing.conformance import Broken as Broken
from laptime.testing.conformance import check_check as check_check
from laptime.testing.conformance import check_command as check_command
from laptime.testing.conformance import check_export as check_export
from laptime.testing.conformance import check_probe as check_probe
from laptime.testing.conformance import check_report as check_report
from laptime.testing.conformance import check_target as check_target
from laptime.testing.conformance import documented as documented
from laptime.testing.optimizations import check_optimization as check_optimization
from laptime.testing.rules import check_rule as check_rule
