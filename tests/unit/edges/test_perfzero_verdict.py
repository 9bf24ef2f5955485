"""What a method came to: states, bounds, intervals over trials, process figures."""

from __future__ import annotations

import math
from typing import Any

import pytest

from laptime.edges.perfzero import summary, verdict
from laptime.edges.perfzero.process import Ended, Look
from laptime.edges.perfzero.report import Metric, Report
from laptime.edges.perfzero.verdict import Outcome, judge, spreads

STARTED: dict[str, Any] = {
    "event": "started", "unix": 100.0, "clock": 7.0, "rss": 50, "vms": 500, "peak": 50, "cpu": 2.0,
}  # fmt: skip
ENDED: dict[str, Any] = {
    "event": "ended", "unix": 100.02, "clock": 7.02, "seconds": 0.019, "rss": 60, "vms": 510, "peak": 95,
    "cpu": 2.03,
}  # fmt: skip
IMPORTED: dict[str, Any] = {"event": "imported", "unix": 99.0, "seconds": 0.5, "reports_as": "C.m"}


def ended(
    *events: dict[str, Any], status: int | None = 0, hung: bool = False, looks: tuple[Look, ...] = ()
) -> Ended:
    return Ended(status=status, hung=hung, events=[*events], looks=[*looks], printed=0, seconds=1.0)


def report(value: float = 1.0, name: str = "C.m", **bounds: Any) -> Report:
    return Report(name=name, wall_time=0.01, metrics=[Metric(name="rps", value=value, **bounds)])


WHOLE = (IMPORTED, STARTED, ENDED)


@pytest.mark.parametrize(
    ("process", "reports", "state"),
    [
        (ended(*WHOLE), [report()], "passed"),
        (ended(*WHOLE), [report(5, min_value=5)], "passed"),
        (ended(*WHOLE), [report(5, max_value=5)], "passed"),
        (ended(*WHOLE), [report(4, min_value=5)], "bound_violated"),
        (ended(*WHOLE), [report(math.nan, min_value=5)], "not_a_number"),
        (ended(*WHOLE), [Report(name="C.m", wall_time=-3.0)], "negative"),
        (ended(*WHOLE), [Report(name="C.m", metrics=[Metric(name="exp_per_second", value=-1)])], "negative"),
        (ended(*WHOLE), [Report(name="C.m", metrics=[Metric(name="log_loss", value=-1)])], "passed"),
        (ended(*WHOLE), [], "no_report"),
        (ended(IMPORTED, STARTED, status=-11), [], "crashed"),
        (ended(IMPORTED, STARTED, status=-11), [report()], "crashed"),
        (ended(IMPORTED, STARTED, status=0), [], "crashed"),
        (ended(IMPORTED, STARTED, status=None, hung=True), [], "hung"),
        (ended(IMPORTED, {"event": "raised", "phase": "constructor", "kind": "OSError"}), [], "raised"),
        (
            ended(
                IMPORTED,
                {"event": "raised", "phase": "method", "message": "File already exists: x/proto_C.m"},
            ),
            [report()],
            "reported_twice",
        ),
    ],
)
def test_states(process: Ended, reports: list[Report], state: str) -> None:
    assert judge(process, reports, []).state == state


def test_a_file_that_is_no_report_is_told_from_none() -> None:
    assert judge(ended(*WHOLE), [], ["proto_C.m is not a whole report"]).state == "bad_report"


def test_the_signal_is_named() -> None:
    assert "SIGSEGV" in judge(ended(IMPORTED, STARTED, status=-11), [], []).sentence


def test_the_methods_own_report_counts_and_a_foreign_name_is_marked() -> None:
    both = judge(ended(*WHOLE), [report(name="C.load"), report(7)], [])
    assert both.report is not None
    assert (both.report.name, both.renamed, [o.name for o in both.others]) == ("C.m", False, ["C.load"])
    assert judge(ended(*WHOLE), [report(name="C.other")], []).renamed


def test_a_wall_time_longer_than_the_method_ran_is_not_in_seconds() -> None:
    microseconds = Report(name="C.m", wall_time=2553.4)
    assert judge(ended(*WHOLE), [microseconds], []).units_doubtful
    assert not judge(ended(*WHOLE), [report()], []).units_doubtful


def trials(*values: float, **bounds: Any) -> list[Outcome]:
    return [judge(ended(*WHOLE), [report(value, **bounds)], []) for value in values]


def test_three_trials_have_an_interval_and_fewer_have_none() -> None:
    assert spreads(trials(1.0, 2.0))["rps"].ci95 is None
    found = spreads(trials(9.0, 10.0, 11.0))["rps"]
    assert found.ci95 is not None
    # Student's t with two degrees of freedom on the logarithms: exp(2.2992 +- 4.303 * 0.1004 / sqrt(3))
    assert found.ci95 == pytest.approx((7.767, 12.789), abs=0.01)
    assert found.value == pytest.approx(9.967, abs=0.001)


def test_without_an_interval_every_value_is_held_against_the_bound_as_perfzero_does() -> None:
    assert spreads(trials(9.0, min_value=1.0))["rps"].bound == "kept"
    assert spreads(trials(9.0, 0.5, min_value=1.0))["rps"].bound == "broken"


def test_a_bound_within_the_interval_is_undecided() -> None:
    assert spreads(trials(9.0, 10.0, 11.0, min_value=1.0))["rps"].bound == "kept"
    assert spreads(trials(9.0, 10.0, 11.0, min_value=9.9))["rps"].bound == "undecided"
    assert spreads(trials(9.0, 10.0, 11.0, max_value=1.0))["rps"].bound == "broken"
    assert spreads(trials(9.0))["rps"].bound is None


def test_failed_trials_have_no_say_in_the_mean() -> None:
    found = [*trials(1.0), judge(ended(IMPORTED, STARTED, status=-9), [report(99.0)], [])]
    assert spreads(found)["rps"].values == [1.0]
    assert [each.state == "passed" for each in found] == [True, False]


def test_a_short_method_has_figures_from_its_start_and_end() -> None:
    found = summary.process_info(ended(*WHOLE))
    assert found == {"max_rss": 95, "max_vms": 510, "max_cpu_percent": pytest.approx(150.0)}


def test_looks_count_only_while_the_method_ran() -> None:
    looks = (Look(99.5, 900, 9000, 10.0), Look(100.005, 70, 700, 99.0), Look(100.01, 80, 800, 180.0))
    found = summary.process_info(ended(*WHOLE, looks=looks))
    assert found == {"max_rss": 95, "max_vms": 800, "max_cpu_percent": 180.0}


def test_what_was_not_measured_is_left_out_and_not_zero() -> None:
    assert summary.process_info(ended(IMPORTED, status=-9)) == {}
    bare = {"event": "started", "unix": 1.0, "cpu": 0.0}
    assert summary.process_info(ended(bare, status=-9)) == {}


def test_the_curve_runs_from_before_the_method_to_its_end() -> None:
    points = summary.curve(ended(*WHOLE, looks=(Look(99.5, 900, 9000, 10.0),)))
    assert [round(point.time, 3) for point in points] == [-0.5, 0.0, 0.02]


def test_violations_name_the_bound() -> None:
    assert verdict.violations(report(4, min_value=5)) == ["rps is 4, below 5"]
