"""MLPerf's scenarios: what each means as a level, and the figure that it is about."""

from __future__ import annotations

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from msgspec import structs

from fixtures import runs
from fixtures.virtual_load import constant, level
from laptime.analysis.load import LevelStats, level_stats
from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.reports.formats import text
from laptime.testing import http_server
from laptime.verbs.load.levels import resolve
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load


def told(run: Run) -> LevelStats:
    stats = level_stats(run.cases[0])
    assert stats is not None
    return stats


def test_offline_answers_as_many_per_second_as_the_server_has_slots_for() -> None:
    with http_server.serving(http_server.Script(slots=4, service=0.02)) as server:
        run = load(LoadRequest(target=server.url, scenario="offline", requests=200))
    stats = told(run)
    assert (stats.facts.scenario, stats.facts.answered) == ("Offline", 200)
    assert stats.answered.ci95 is not None
    assert stats.answered.ci95[0] <= (stats.answered.value or 0) <= stats.answered.ci95[1]
    assert 130 < (stats.answered.value or 0) <= 205  # four slots of 20 ms are 200/s
    assert {stat.value for stat in stats.latency.values()} == {None}
    shown = text.render(run, width=110)
    assert "most 64" in shown
    assert "answered 1" in shown or "answered 2" in shown


def test_offline_on_a_program_calls_it_one_after_another() -> None:
    run = load(LoadRequest(target="null:sleep=5ms", scenario="Offline", duration=0.6))
    stats = told(run)
    assert 0 < (stats.answered.value or 0) < 200
    assert stats.facts.answered >= 100
    ends = stats.requests.end
    assert stats.answered.value == pytest.approx(len(ends) / (ends.max() - stats.requests.due[0]))


def test_single_stream_is_one_user_and_its_figure_is_p90() -> None:
    run = load(LoadRequest(target="null:sleep=5ms", scenario="single-stream", duration=0.3))
    assert (told(run).facts.kind, told(run).facts.concurrency) == ("closed", 1)
    assert "SingleStream, 1 user" in text.render(run, width=110)
    case = level(20, 300, constant(0.02), 1, scenario="SingleStream")
    shown = text.render(structs.replace(runs.run(case), verb="load"), width=110)
    assert "p90" in shown.split("\n")[1]


def test_server_is_a_poisson_rate() -> None:
    request = LoadRequest(target="null:noop", scenario="SERVER", rates=[8])
    assert (resolve(request).scenario, resolve(request).arrivals) == ("Server", "poisson")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"scenario": "Servers", "rates": [1]}, "Server"),
        ({"scenario": "Server"}, "needs a rate"),
        ({"scenario": "Server", "rates": [1], "arrivals": "constant"}, "--arrivals"),
        ({"scenario": "Offline", "rates": [1]}, "--rate"),
        ({"scenario": "SingleStream", "concurrency": [2]}, "--concurrency"),
    ],
)
def test_what_says_something_else_does_not_go_with_a_scenario(options: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(LoadRequest(target="null:noop", **options))  # type: ignore[arg-type]
    assert what in refused.value.what + refused.value.next
