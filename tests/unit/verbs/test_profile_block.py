"""`with laptime.profile()`: the loop inside, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

torch = pytest.importorskip("torch")

import laptime  # noqa: E402
from laptime.kit.errors import UsageError  # noqa: E402
from laptime.records.check import Finding  # noqa: E402
from laptime.reports.formats import text  # noqa: E402
from laptime.store import lookup  # noqa: E402

pytestmark = pytest.mark.torch


def loop(steps: int) -> int:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    done = 0
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        done += 1
    return done


def options(**more: Any) -> dict[str, Any]:
    return {"steps": 2, "warmup": 1, "wait": 1, "stack": False, **more}


def test_the_loop_runs_to_its_end_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "runs"))
    monkeypatch.setattr("laptime.instrument.step_observer.USUAL", 5)
    with laptime.profile(**options(trace=tmp_path / "traces", save=True)) as seen:
        assert loop(5000) == 5000
    run = seen.run
    assert run is not None
    assert run.profile is not None
    assert (run.verb, run.status, run.profile.overview.steps) == ("profile", "complete", 2)
    assert run.profile.reconciled is not None
    assert run.profile.reconciled.loader_wait_ns is None
    assert len(list((tmp_path / "traces").glob("rank0.*.pt.trace.json.gz"))) == 1
    assert lookup.load("last", tmp_path / "runs").id == run.id
    assert torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl
    told = capfd.readouterr()
    assert "laptime:" not in told.err
    assert "Saved" in told.out


def test_the_report_is_printed_at_the_end_unless_it_is_not_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    with laptime.profile(**options()):
        loop(60)
    assert "laptime.profile()" in (told := capfd.readouterr().out)
    assert "Not saved" in told
    with laptime.profile(**options(show=False)):
        loop(60)
    assert capfd.readouterr().out == ""


def test_an_error_in_the_block_is_the_users_own() -> None:
    block = laptime.profile(**options())

    def failing() -> None:
        with block:
            loop(12)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl
    assert block.run is not None
    assert block.run.cases[0].series[0].samples


def test_a_block_without_steps_says_so() -> None:
    with pytest.raises(UsageError, match="was found"), laptime.profile(**options()):
        pass
    assert torch.nn.Module.__call__ is torch.nn.Module._wrapped_call_impl


def test_the_handler_takes_the_place_of_the_one_for_tensorboard(tmp_path: Path) -> None:
    from laptime.verbs.trace import analyse

    activities = [torch.profiler.ProfilerActivity.CPU]
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    handler = laptime.trace_handler(tmp_path)
    with torch.profiler.profile(activities=activities, schedule=schedule, on_trace_ready=handler) as profiler:
        for _ in range(3):
            loop(1)
            profiler.step()
    assert analyse([tmp_path]).overview.steps == 2


def test_as_a_decorator_every_call_is_profiled_and_the_result_comes_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laptime.instrument.step_observer.USUAL", 5)
    seen = laptime.profile(**options(show=False))
    train = seen(loop)
    assert train.__name__ == "loop"
    with pytest.raises(UsageError, match="no profile"):
        _ = seen.run
    assert train(5000) == 5000
    first = seen.run
    assert seen.profile.overview.steps == 2
    assert train(5000) == 5000
    assert seen.run.id != first.id


def test_a_generator_cannot_be_decorated() -> None:
    def batches() -> Any:
        yield 1

    with pytest.raises(UsageError, match="be decorated"):
        laptime.profile()(batches)


def test_a_loop_that_ends_too_early_has_a_run_that_says_so() -> None:
    with laptime.profile(**options(show=False)) as seen:
        loop(3)
    with pytest.raises(UsageError, match="was traced"):
        _ = seen.profile


def test_its_advice_is_python(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("laptime.instrument.step_observer.USUAL", 5)
    with laptime.profile(**options(save=False)) as seen:
        loop(5000)
    finding = Finding(kind="x", sentence="y", optimization="bf16_autocast", next="--no-stack --no-memory")
    said = text.render(structs.replace(seen.run, findings=[finding]))
    assert "laptime.profile(stack=False, memory=False)" in said
    assert "only=['bf16_autocast'])" in said
    assert "laptime tune" not in said


def test_thirty_short_steps_have_a_trace() -> None:
    with laptime.profile(show=False) as seen:
        loop(30)
    assert seen.profile.overview.steps in (4, 5), "a first one that is far longer may be left out"
