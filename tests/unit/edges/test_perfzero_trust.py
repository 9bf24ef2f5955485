"""Whether reported numbers can be trusted: trials, intervals, bounds, and what the method lost to others."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.edges.perfzero.process import Ended, Look
from laptime.edges.perfzero.report import Metric, Report
from laptime.edges.perfzero.verdict import Outcome, checks, disturbance, judge
from laptime.records.check import Check, trust
from laptime.records.series import Label

IMPORTED: dict[str, Any] = {"event": "imported", "unix": 99.0, "seconds": 0.5, "reports_as": "C.m"}


def machine(busy: float, stolen: float = 0.0) -> str:
    """The first line of /proc/stat after so many seconds of the machine's CPUs."""
    return f"cpu  {round(busy * 100)} 0 0 0 0 0 0 {round(stolen * 100)} 0 0\n"


def ended(
    *,
    seconds: float = 10.0,
    waited: float = 0.0,
    others: float = 0.0,
    stolen: float = 0.0,
    throttled: float | None = 0.0,
    looks: tuple[Look, ...] = (),
    status: int = 0,
) -> Ended:
    """A method that kept a CPU busy for so many seconds, while others used the machine for `others`."""
    start = {"event": "started", "unix": 100.0, "clock": 7.0, "cpu": 2.0, "waited": 1.0,
             "machine": machine(50.0, 3.0)}  # fmt: skip
    end = {"event": "ended", "unix": 100.0 + seconds, "clock": 7.0 + seconds, "seconds": seconds,
           "cpu": 2.0 + seconds, "waited": 1.0 + waited,
           "machine": machine(50.0 + seconds + others, 3.0 + stolen)}  # fmt: skip
    events = [IMPORTED, start] if status else [IMPORTED, start, end]
    return Ended(
        status=status,
        hung=False,
        events=events,
        looks=[*looks],
        printed=0,
        seconds=seconds + 1,
        throttled=throttled,
    )


def trials(*rates: float, process: Ended | None = None, **bounds: float) -> list[Outcome]:
    return [
        judge(
            process or ended(),
            [
                Report(
                    name="C.m",
                    wall_time=1 / rate if rate else 0.0,
                    metrics=[Metric(name="exp_per_second", value=rate, **bounds)],
                )
            ],
            [],
        )
        for rate in rates
    ]


def found(outcomes: list[Outcome], virtual: bool = False) -> dict[str, Check]:
    return {check.name: check for check in checks(outcomes, virtual=virtual)}


def test_three_quiet_trials_that_agree_are_trusted() -> None:
    answers = found(trials(10.0, 10.05, 9.95))
    assert trust([*answers.values()]) == "trusted"
    assert answers["precision"].outcome == "ok"


@pytest.mark.parametrize(
    ("lost", "virtual", "label", "said"),
    [
        ({"waited": 3.0, "others": 6.0}, False, Label.WAITED, "waited for a CPU that other programs used"),
        ({"waited": 3.0, "others": 0.1}, False, Label.NONE, ""),  # its own threads had the CPUs
        ({"waited": 0.1, "others": 6.0}, False, Label.NONE, ""),  # there was room for all
        ({"stolen": 1.0}, True, Label.STOLEN, "the hypervisor gave its CPUs to others, 1.00 s in 10.0 s"),
        ({"stolen": 1.0}, False, Label.NONE, ""),
        ({"waited": 0.01, "others": 0.01, "seconds": 0.01}, False, Label.NONE, ""),  # less than its ticks
        ({"throttled": 2.0}, False, Label.THROTTLED, "stopped by the container's CPU quota"),
        ({"throttled": None}, False, Label.NONE, ""),
    ],
)
def test_time_that_others_had_is_evidence(
    lost: dict[str, Any], virtual: bool, label: Label, said: str
) -> None:
    process = ended(**lost)
    assert disturbance(process, virtual=virtual).label == label
    answers = found(trials(10.0, 10.05, 9.95, process=process), virtual)
    assert ("disturbed" in answers) == bool(label)
    if label:
        assert answers["disturbed"].outcome == "warn"
        assert said in answers["disturbed"].sentence


def test_one_trial_of_several_that_lost_little_is_only_noted() -> None:
    little, much = ended(waited=0.3, others=6.0), ended(waited=0.8, others=6.0)
    quiet = trials(10.0, 10.05, 9.95, 10.0)
    assert found([*quiet, *trials(10.0, process=little)])["disturbed"].outcome == "note"
    assert found([*quiet, *trials(10.0, process=much)])["disturbed"].outcome == "warn"
    assert found([*quiet[:2], *trials(10.0, 10.0, 10.0, process=little)])["disturbed"].outcome == "warn"


def test_children_wait_for_a_cpu_too() -> None:
    looks = (
        Look(101.0, 1, 1, 100.0, used=1.0, waited=0.5),
        Look(109.0, 1, 1, 100.0, used=9.0, waited=4.5),
    )
    assert disturbance(ended(others=9.0, looks=looks), virtual=False).label == Label.WAITED


def test_without_counters_nothing_is_made_up() -> None:
    bare = Ended(
        status=0,
        hung=False,
        events=[IMPORTED, {"event": "started", "unix": 1.0}, {"event": "ended", "unix": 2.0, "seconds": 1}],
        looks=[],
        printed=0,
        seconds=2.0,
    )
    assert disturbance(bare, virtual=True).label == Label.NONE


@pytest.mark.parametrize("rates", [(10.0,), (10.0, 10.0)])
def test_too_few_trials_for_an_interval_are_noisy_and_say_so(rates: tuple[float, ...]) -> None:
    answers = found(trials(*rates))
    assert trust([*answers.values()]) == "noisy"
    assert "too few" in answers["trials"].sentence
    assert "--benchmark_num_trials" in answers["trials"].next


def test_trials_that_lie_apart_are_noisy() -> None:
    answers = found(trials(5.58, 32.4, 30.0))
    assert answers["precision"].outcome == "warn"
    assert "after 3 trials" in answers["precision"].sentence


def test_a_violated_bound_is_not_trusted() -> None:
    answers = found(trials(10.0, 10.05, 9.95, min_value=20))
    assert answers["bounds"].outcome == "warn"
    assert "below 20 (3 of 3" in answers["bounds"].sentence


def test_impossible_numbers_are_invalid() -> None:
    outcomes = [judge(ended(), [Report(name="C.m", wall_time=-3.0)], [])]
    answers = found(outcomes)
    assert (answers["finite"].outcome, trust([*answers.values()])) == ("fail", "invalid")
    assert "below zero" in answers["finite"].sentence


def test_a_trial_that_crashed_makes_the_others_invalid_and_alone_it_has_no_numbers() -> None:
    crashed = judge(ended(status=-11), [], [])
    answers = found([*trials(10.0, 10.05, 9.95), crashed])
    assert answers["trials"].outcome == "fail"
    assert "1 of 4 trials" in answers["trials"].sentence
    assert checks([crashed], virtual=False) == []
