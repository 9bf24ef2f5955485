from __future__ import annotations

import gc
import resource
import signal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest

import laptime
from fixtures import runs
from laptime.analysis.summary import headline, summarize
from laptime.kit.clock import SystemClock
from laptime.kit.errors import UsageError, UserCodeError
from laptime.records.event import Event, RunFinished, RunStarted
from laptime.reports.formats import text
from laptime.store import lookup

pytestmark = pytest.mark.torch  # objects of this process are torch's until told otherwise

QUICK: dict[str, Any] = {"budget": 0.2, "preset": "quick"}


def busy(seconds: float) -> None:
    end = SystemClock.now() + seconds
    while SystemClock.now() < end:
        pass


def test_a_function_is_measured_in_this_process() -> None:
    def model(batch: int) -> float:
        busy(0.001 * batch)
        return 1.0

    run = laptime.bench(model, lambda batch: batch, batch=[1, 4], **QUICK)
    assert run.status == "complete"
    assert [case.batch for case in run.cases] == [1, 4]
    for case in run.cases:
        stat = headline(case)
        assert stat is not None
        assert stat.value is not None
        assert stat.value >= 0.001 * case.batch
        assert case.details.in_process
        assert "in_process" in {check.name for check in case.checks}
    assert run.subjects[0].target == "model"


def test_nothing_of_the_calling_process_is_changed() -> None:
    def state() -> tuple[Any, ...]:
        return (
            list(gc.callbacks),
            gc.isenabled(),
            gc.get_threshold(),
            resource.getrlimit(resource.RLIMIT_DATA),
            resource.getrlimit(resource.RLIMIT_AS),
            signal.getsignal(signal.SIGINT),
            psutil.Process().num_fds(),
        )

    laptime.bench(lambda: None, **QUICK)  # imports, and files that stay open once
    before = state()
    laptime.bench(lambda: None, **QUICK)
    assert state() == before
    laptime.bench(lambda: 1 / 0, **QUICK)
    assert state() == before
    laptime.bench(lambda x: x, lambda batch: [0] * batch, **QUICK | {"batch": "auto"})
    assert state() == before


def test_a_model_that_raises_is_a_failed_case() -> None:
    def broken() -> None:
        raise ValueError("planted")

    (case,) = laptime.bench(broken, **QUICK).cases
    assert case.status == "failed"
    assert case.failure is not None
    assert case.failure.kind == "user_code"
    assert "planted" in case.failure.why
    assert case.trust == "invalid"


def test_ctrl_c_in_the_model_keeps_what_was_measured() -> None:
    calls = 0

    def model() -> None:
        nonlocal calls
        calls += 1
        busy(0.001)
        if calls == 300:
            raise KeyboardInterrupt

    run = laptime.bench(model, budget=30.0)
    assert run.status == "interrupted"
    assert run.cases[0].status == "interrupted"
    assert run.cases[0].find("time/first_call") is not None


def test_events_tell_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    heard: list[Event] = []
    run = laptime.bench(lambda: busy(0.001), save=True, on_event=heard.append, name="mine", **QUICK)
    assert isinstance(heard[0], RunStarted)
    assert isinstance(heard[-1], RunFinished)
    stored = lookup.load("mine")
    assert [case.key for case in stored.cases] == [case.key for case in run.cases]
    with pytest.raises(UsageError, match="with itself"):
        laptime.compare(stored, "mine")


def test_nothing_is_kept_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    laptime.bench(lambda: None, **QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wish", [{"batch": 0}, {"dtype": "flaot32"}, {"precision": -1.0}, {"rate": 0.0}])
def test_an_impossible_wish_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        laptime.bench(lambda: None, **wish)


def test_a_target_in_words_is_measured_in_a_fresh_process() -> None:
    run = laptime.bench("null:spin=1ms", **QUICK)
    assert run.cases[0].status == "ok"
    assert not run.cases[0].details.in_process


def test_a_torch_model_is_left_as_it_was_found() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(8))
    model.train()
    model[1].eval()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = torch.randn(4, 8)
    before = _torch_state()
    run = laptime.bench(model, inputs, batch=[2, 4], threads=[1], **QUICK)
    assert [case.status for case in run.cases] == ["ok", "ok"], run.cases[0].failure
    assert [module.training for module in model] == [True, False, True]
    assert model.training
    after = _torch_state()
    assert after[:3] == before[:3]
    assert torch.equal(before[3], after[3])
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())
    stats = summarize(run.cases[1])
    assert stats["params/all"].value == 8 * 8 + 8 + 16


def _torch_state() -> tuple[Any, ...]:
    import torch

    return (
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.random.get_rng_state(),
    )


def test_what_is_given_is_what_is_measured() -> None:
    import torch

    seen: list[tuple[int, ...]] = []
    model = torch.nn.Linear(3, 64)
    model.register_forward_pre_hook(lambda module, args: seen.append(tuple(args[0].shape)))
    (case,) = (run := laptime.bench(model, torch.randn(10_000, 3), **QUICK)).cases
    assert {*seen} == {(10_000, 3)}
    assert case.batch == 10_000
    assert case.axes["batch"] == 10_000
    assert case.details.inputs["shapes"] == "float32 (10000, 3)"
    assert summarize(case)["flops"].value == 2 * 10_000 * 3 * 64
    assert run.plan["batch"].value == [10_000]
    shown = text.render(run)
    assert "float32 (10000, 3), as given; batch 10000: the first dimension of the input" in " ".join(
        shown.split()
    )


def test_a_batch_that_is_asked_for_shows_the_shape_that_ran() -> None:
    import torch

    run = laptime.bench(torch.nn.LSTM(6, 4), torch.randn(50, 8, 6), batch=[8, 2], **QUICK)
    assert [case.details.inputs["shapes"] for case in run.cases] == [
        "float32 (50, 8, 6)",
        "float32 (50, 2, 6)",
    ]
    assert "cut or repeated from float32 (50, 8, 6)" in " ".join(text.render(run).split())


def test_a_batch_that_cannot_be_known_is_said_and_refused_when_asked_for() -> None:
    import torch

    def model(x: Any, anchors: Any) -> Any:
        return x.sum() + anchors.sum()

    inputs = (torch.ones(8, 3), torch.ones(100, 4))
    (case,) = (run := laptime.bench(model, inputs, **QUICK)).cases
    assert case.status == "ok"
    assert case.axes["batch"] == "as given"
    assert "not known" in " ".join(text.render(run).split())
    for batch in (1, 2):
        (refused,) = laptime.bench(model, inputs, batch=batch, **QUICK).cases
        assert refused.failure is not None
        assert f"of batch {batch}" in refused.failure.what
        assert "first dimension" in refused.failure.why
        assert refused.failure.next


def test_a_first_dimension_that_no_output_has_may_be_no_batch() -> None:
    import torch

    class Cloud(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = torch.nn.Linear(3, 16)

        def forward(self, points: Any) -> Any:
            return self.each(points).amax(0)

    run = laptime.bench(Cloud(), torch.randn(1024, 3), **QUICK)
    assert run.cases[0].details.inputs["shapes"] == "float32 (1024, 3)"
    assert "no output has 1024 as its first size, so it may not be a batch" in " ".join(
        text.render(run).split()
    )


def test_two_models_are_compared_in_turns() -> None:
    def one() -> None:
        busy(0.001)

    def other() -> None:
        busy(0.003)

    (found,) = laptime.compare(one, other, backends=["null"], budget=1.0)
    assert (found.baseline.partition("/")[0], found.candidate.partition("/")[0]) == ("one", "other")
    assert found.word in ("slower", "unclear")  # a busy machine may hide even that
    assert found.speedup == pytest.approx(1 / 3, rel=0.5)
    (same,) = laptime.compare(one, one, backends=["null"], budget=0.5)
    assert same.candidate.partition("/")[0] == "one 2"
    assert same.word in ("same", "unclear")


def test_a_run_is_not_compared_with_a_model() -> None:
    with pytest.raises(UsageError, match="'function'"):
        laptime.compare("last", busy)


def test_a_run_of_which_every_case_failed_has_failed() -> None:
    def model(batch: int) -> None:
        if batch > 1:
            raise ValueError("too large")

    def inputs(batch: int) -> int:
        return batch

    assert laptime.bench(model, inputs, batch=[2, 4], **QUICK).status == "failed"
    assert laptime.bench(model, inputs, batch=[1, 2], **QUICK).status == "complete"


def test_a_comparison_without_an_answer_says_why() -> None:
    def fails() -> None:
        raise ValueError("no such layer")

    with pytest.raises(UserCodeError, match="failed"):
        laptime.compare(lambda: busy(0.001), fails, backends=["null"], budget=0.5)
    with pytest.raises(UsageError, match="without budget"):
        laptime.compare("baseline", "last", budget=3)


def test_a_misspelt_option_of_the_python_api_says_the_nearest() -> None:
    calls: list[Any] = [laptime.bench, partial(laptime.compare, lambda: None)]
    for call in calls:
        with pytest.raises(TypeError, match="'bugdet'") as told:
            call(lambda: None, bugdet=3)
        error: Any = told.value
        assert "budget=?" in error.next


def test_options_may_be_given_as_they_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "laptime.verbs.bench.bench", lambda request, *rest, **more: asked.append(request) or runs.trusted()
    )
    laptime.bench("null:noop", batch="1,8", budget="2m", precision="1%", dtype="bf16", python="torch=python")
    laptime.bench(
        "null:noop", batch=[1, 8], budget=120, precision=0.01, dtype="bfloat16", python={"torch": "python"}
    )
    assert asked[0] == asked[1]
    assert asked[0].batch == [1, 8]
    assert asked[0].origins["budget"] == "argument"


def test_a_stored_run_is_opened_by_its_name_and_the_old_way_warns() -> None:
    run = laptime.bench(lambda: None, budget=0.2, name="mine", save=True)
    assert laptime.open_run("mine").id == run.id
    with pytest.warns(DeprecationWarning, match="laptime.open_run"):
        assert laptime.load("mine").id == run.id
    with pytest.raises(laptime.UsageError):
        laptime.open_run("no such run")


def test_load_sends_load_as_the_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def sent(request: Any, emit: Any) -> Any:
        asked.append(request)
        return runs.trusted()

    monkeypatch.setattr("laptime.verbs.load.run.load", sent)
    assert laptime.load("null:exp=20ms", rates="5,10", duration="3s").cases
    assert (asked[0].target, asked[0].rates, asked[0].save) == ("null:exp=20ms", [5.0, 10.0], False)
    with pytest.raises(laptime.UsageError, match="'rat'"):
        laptime.load("null:exp=20ms", rat=5)
    with pytest.raises(laptime.UsageError, match="rates"):
        laptime.load("null:exp=20ms", rates="many")


def test_what_the_shell_has_python_has_too() -> None:
    assert {"bench", "compare", "cost", "doctor", "history", "load", "open_run", "trace", "tune"} <= set(
        dir(laptime)
    )
    import_module("laptime.trace.intervals")  # the room is no longer what the name means
    assert callable(laptime.trace)
    (cost,) = [laptime.cost([runs.trusted()], laptime.CostRequest(usd_per_hour=1.0))]
    assert cost.lines[0].usd_per_million > 0


@pytest.mark.torch
def test_calls_have_the_threads_that_were_asked_for_whoever_has_looked_at_their_number() -> None:
    """PyTorch keeps the number by thread, from the first look on: who loads a model has to call it."""
    import torch

    usual, seen = torch.get_num_threads(), set()

    def call(x: torch.Tensor) -> torch.Tensor:
        seen.add(torch.get_num_threads())
        return x + 1

    laptime.bench(call, torch.ones(2), threads=[usual + 1], **QUICK)
    assert seen == {usual + 1}
    assert torch.get_num_threads() == usual
