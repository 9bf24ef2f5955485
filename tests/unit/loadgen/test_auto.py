"""`--duration auto`: a level ends when its figures are known, its queue surely grows, or time is up."""

from __future__ import annotations

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from msgspec import structs

from fixtures import runs
from fixtures.virtual_load import constant, exponential, level
from laptime.analysis.load import LevelStats, level_stats
from laptime.kit.errors import UsageError
from laptime.records.case import Case
from laptime.reports.formats import text
from laptime.testing import http_server
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

S = 0.020


def told(case: Case) -> LevelStats:
    stats = level_stats(case)
    assert stats is not None
    return stats


def test_a_level_goes_on_until_it_is_trusted_and_says_how_long_that_took() -> None:
    case = level(20, 3600, constant(S), 1, auto=True)
    facts = told(case).facts
    assert (facts.ended, case.trust) == ("precise", "trusted")
    assert 20 < facts.window < 600
    assert facts.scheduled == facts.answered == pytest.approx(20 * facts.window, rel=0.2)
    precision = told(case).latency["mean"].precision
    assert precision is not None
    assert precision <= 0.05


def test_it_goes_on_until_the_promise_is_decided() -> None:
    short = told(level(20, 3600, constant(S), 1, auto=True)).facts.window
    facts = told(level(20, 3600, constant(S), 1, auto=True, slo="latency=90ms@p99")).facts
    assert facts.kept == "kept"
    assert facts.window >= short


def test_a_queue_that_grows_ends_it_soon_and_one_that_is_busy_does_not() -> None:
    ended = [told(level(60, 3600, constant(S), seed, auto=True)).facts for seed in range(2)]
    assert {facts.ended for facts in ended} == {"unstable"}
    assert max(facts.window for facts in ended) < 30
    busy = [told(level(40, 60, exponential(S, seed), seed, auto=True)).facts.ended for seed in range(3)]
    assert "unstable" not in busy


def test_the_terminal_says_how_long_each_level_took_and_why_it_ended() -> None:
    cases = [level(rate, 240, constant(S), 1, auto=True) for rate in (20, 60)]
    shown = text.render(structs.replace(runs.run(*cases), verb="load"), width=110)
    assert f"20/s poisson {told(cases[0]).facts.window:.0f} s" in shown
    assert "queue grows" in shown


def test_the_limit_ends_it_and_it_stays_noisy() -> None:
    case = level(40, 60, exponential(S, 5), 5, auto=True)
    assert (told(case).facts.ended, case.trust) == ("limit", "noisy")


@pytest.mark.slow
def test_intervals_of_levels_that_end_by_themselves_cover_in_95_of_100() -> None:
    runs = [told(level(20, 3600, constant(S), seed, auto=True)) for seed in range(100)]
    ends = [each.latency["mean"].ci95 for each in runs]
    assert sum(ci is not None and ci[0] <= 0.02667 <= ci[1] for ci in ends) >= 95


def test_real_senders_end_a_level_when_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laptime.verbs.load.level_run.FIRST", 0.5)
    monkeypatch.setattr("laptime.verbs.load.level_run.MARGIN", 100.0)  # however busy this machine is
    monkeypatch.setattr("laptime.loadgen.checks.FEWEST", 0)
    with http_server.serving(http_server.Script(slots=0, service=0.02)) as server:
        for options in ({"rates": [100], "arrivals": "constant"}, {"concurrency": [2]}):
            run = load(LoadRequest(target=server.url, auto=True, budget=60.0, **options))
            facts = told(run.cases[0]).facts
            assert facts.ended == "precise"
            assert facts.failed == 0
            assert facts.window < 30


@pytest.mark.parametrize("other", [{"requests": 5}, {"find_peak": True, "slo": "latency=1s@p99"}])
def test_what_says_itself_how_long_a_level_is_does_not_go_with_it(other: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="go with"):
        load(LoadRequest(target="null:noop", rates=[1], auto=True, **other))  # type: ignore[arg-type]
