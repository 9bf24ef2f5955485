"""Suites on a scripted machine: order, progress, failures, and everything together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from laptime.records.event import CaseAdded, Event, Listener, Progress
from laptime.records.run import Run
from laptime.store import files, folder, lookup
from laptime.suites import Benchmark, Suite
from laptime.testing.machine import ScriptedMachine
from laptime.verbs import suite as verb

FAST, SLOW = "null:spin=1ms", "null:spin=2ms"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))


def suite(*benchmarks: Benchmark, name: str = "s") -> Suite:
    return Suite(name=name, benchmark=list(benchmarks))


def measured(*suites: Suite, save: bool = True, **wishes: object) -> tuple[Run, list[Event], list[str]]:
    machine = ScriptedMachine({FAST: 0.001, SLOW: 0.002})
    events: list[Event] = []
    ended: list[str] = []

    @contextmanager
    def watch(item: verb.PlannedBenchmark) -> Iterator[Listener]:
        yield events.append

    run = verb.measure(
        verb.prepare(list(suites), **wishes),  # type: ignore[arg-type]
        watch=watch,
        ended=lambda item, run: ended.append(run.name),
        save=save,
        open_session=machine.open_session,
    )
    return run, events, ended


def fast(name: str = "fast", **more: object) -> Benchmark:
    return Benchmark(name=name, target=FAST, preset="quick", budget=0.2, **more)  # type: ignore[arg-type]


def test_all_benchmarks_become_one_run_with_an_axis_more() -> None:
    two = suite(fast(max={"latency": "1 s"}), Benchmark(name="slow", target=SLOW, batch=[1, 2], budget=0.2))
    run, events, ended = measured(two)
    assert ended == ["s:fast", "s:slow"]
    assert [case.axes["benchmark"] for case in run.cases] == ["fast", "slow", "slow"]
    assert len({case.key for case in run.cases}) == 3
    assert [verdict.word for verdict in run.verdicts] == ["kept"]
    assert run.verdicts[0].case == run.cases[0].key
    assert run.status == "complete"
    done = [event.done for event in events if isinstance(event, Progress)]
    assert done == sorted(done)
    assert any(isinstance(event, Progress) and event.text.startswith("2 of 2") for event in events)


def test_each_benchmark_is_stored_with_its_suite_and_its_verdicts() -> None:
    measured(suite(fast(tags=["t"], max={"latency": 1e-9})))
    stored = lookup.load("s:fast")
    assert stored.suite is not None
    assert (stored.suite.name, stored.suite.benchmark, stored.suite.tags) == ("s", "fast", ["t"])
    assert [verdict.word for verdict in stored.verdicts] == ["broken"]
    assert stored.findings[0].kind == "check/max"


def test_resume_measures_only_what_is_missing_or_asked_differently() -> None:
    first, _, _ = measured(suite(fast(), fast("other")))
    more = suite(fast(), fast("other", seed=1), fast("new"))
    run, events, ended = measured(more, resume=True)
    begun = {event.case.key for event in events if isinstance(event, CaseAdded)}
    assert ended == ["s:fast", "s:other", "s:new"]
    assert len([event for event in events if isinstance(event, CaseAdded)]) == 2
    assert begun
    assert run.id == first.id
    assert len(run.cases) == 3


def test_resume_judges_what_is_stored_by_the_budgets_of_now() -> None:
    measured(suite(fast()))
    run, _, _ = measured(suite(fast(max={"latency": 1e-9})), resume=True)
    assert [verdict.word for verdict in run.verdicts] == ["broken"]


def test_without_resume_everything_is_measured_again() -> None:
    first, _, _ = measured(suite(fast()))
    second, events, _ = measured(suite(fast()))
    assert first.id != second.id
    assert any(isinstance(event, CaseAdded) for event in events)


def test_a_benchmark_that_cannot_begin_is_a_failed_case() -> None:
    bad = Benchmark(name="bad", target="nothing.py:build")
    run, _, ended = measured(suite(bad, fast()))
    assert ended == ["s:bad", "s:fast"]
    assert [case.status for case in run.cases] == ["failed", "ok"]
    assert run.cases[0].failure is not None
    assert run.cases[0].failure.kind == "target"


def test_a_target_that_vanishes_meanwhile_costs_the_others_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def build(): return len\n")
    items = verb.prepare([suite(Benchmark(name="gone", target=f"{tmp_path}/model.py:build"), fast())])
    (tmp_path / "model.py").unlink()
    run = verb.measure(items, open_session=ScriptedMachine({FAST: 0.001}).open_session)
    assert [case.status for case in run.cases] == ["failed", "ok"]


def test_a_regression_is_judged_against_the_run_before() -> None:
    once, _, _ = measured(suite(fast(regression=4.0)))
    assert once.verdicts == [], "a first run has nothing to be judged against, and is not to blame"
    assert [each.kind for each in once.findings] == ["suite/first_run"]
    assert "no run" in once.findings[0].sentence
    twice, _, _ = measured(suite(fast(regression=4.0)))
    assert [verdict.word for verdict in twice.verdicts] == ["kept"]
    other = suite(fast(regression=4.0), name="branch")
    assert measured(other)[0].verdicts == []
    assert measured(other, baseline="s")[0].verdicts[0].word == "kept"


def test_suites_of_one_name_each_keep_their_benchmarks_apart() -> None:
    run, _, _ = measured(suite(fast()), suite(fast(), name="t"))
    assert [case.axes["benchmark"] for case in run.cases] == ["s:fast", "t:fast"]


def test_nothing_is_stored_unless_asked_for() -> None:
    measured(suite(fast()), save=False)
    assert files.list_files() == []


def test_what_took_so_long_last_time_is_expected_to_again() -> None:
    (planned,) = verb.prepare([suite(fast())])
    assert not planned.is_known
    assert planned.seconds > 0.2
    measured(suite(fast()))
    stored = lookup.load("s:fast")
    files.save(structs.replace(stored, id=folder.new_id(), seconds=77.0))
    (known,) = verb.prepare([suite(fast())])
    assert (known.seconds, known.is_known) == (77.0, True)
