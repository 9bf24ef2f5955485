"""`%laptime`: options, code and what comes back; a fake shell, as IPython calls an extension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import laptime
from laptime.apps import notebook
from laptime.kit.errors import UsageError


class Shell:
    def __init__(self, **names: Any) -> None:
        self.user_ns: dict[str, Any] = names
        self.magics: dict[str, Callable[..., Any]] = {}

    def register_magic_function(
        self, function: Callable[..., Any], *, magic_kind: str, magic_name: str
    ) -> None:
        assert magic_kind == "line_cell"
        self.magics[magic_name] = function


def test_load_ext_finds_the_magic_which_measures_the_notebooks_own_names() -> None:
    calls: list[int] = []
    shell = Shell(work=lambda: calls.append(1))
    laptime.load_ipython_extension(shell)
    run = shell.magics["laptime"]("--budget 0.2 work()")
    assert isinstance(run, laptime.Run)
    assert len(calls) > 100
    assert 0 < (run.latency.value or 0) < 0.01


def test_a_cell_of_statements_is_measured_whole() -> None:
    shell = Shell(total=0)
    run = notebook.measure(shell, "--budget=0.2", "for i in range(3):\n    total += i\n")
    assert run.latency.n > 10
    assert shell.user_ns["total"] >= 3 * run.latency.n


def test_code_that_begins_like_no_option_is_left_alone() -> None:
    options, code = notebook.parse("--budget 3 -x + y", None)
    assert (options.budget, code) == (3.0, "-x + y")


@pytest.mark.parametrize("line", ["--budget", "--bugdet 3 f()", "", "--budget 3", "f("])
def test_a_wrong_line_is_three_lines_and_no_traceback(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell()
    laptime.load_ipython_extension(shell)
    assert shell.magics["laptime"](line) is None
    assert len(capsys.readouterr().err.strip().splitlines()) == 3


def test_wrong_lines_raise_the_users_error() -> None:
    with pytest.raises(UsageError, match="to measure"):
        notebook.parse("  ", None)


@pytest.mark.torch
def test_a_cell_may_train() -> None:
    torch = pytest.importorskip("torch")
    shell = Shell(model=torch.nn.Linear(4, 4), x=torch.randn(2, 4))
    run = notebook.measure(shell, "--budget 0.2", "model(x).sum().backward()")
    assert run.cases[0].status == "ok"
    assert run.latency.n > 10


def test_code_that_fails_says_why_and_a_short_call_is_no_noise(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(one=lambda: 1)
    laptime.load_ipython_extension(shell)
    assert shell.magics["laptime"]("--budget 0.2 nobody(1)") is None
    assert "'nobody'" in capsys.readouterr().err
    assert "--budget TIME" in (shell.magics["laptime"].__doc__ or "")
    run = notebook.measure(shell, "--budget 0.2 one()")
    (check,) = [check for check in run.cases[0].checks if check.name == "resolution"]
    assert (check.outcome, "the mean of" in check.sentence) == ("note", True)
    assert len(repr(run.cases)) < 5000


@pytest.mark.parametrize("code", ["answer()", "await answer()", "x = await answer(); y = x"])
def test_a_coroutine_is_awaited_though_a_notebook_has_a_loop_already(code: str) -> None:
    async def answer() -> int:
        await asyncio.create_task(asyncio.sleep(0.001))
        return 42

    async def cell(code: str) -> Any:
        return notebook.measure(Shell(answer=answer), f"--budget 200ms {code}"), asyncio.current_task()

    async def whole_cell() -> None:
        run, task = await asyncio.create_task(cell(code))
        assert run.cases[0].details.inputs["lazy"] == "coroutine"
        assert run.latency.value > 0.001
        assert task is not None  # the notebook's own is back

    asyncio.run(whole_cell())


def test_a_failure_stands_in_the_html_with_its_reason() -> None:
    def fails() -> None:
        raise ValueError("3 is <no> 4")

    html = laptime.bench(fails, budget=0.1, backends=["null"])._repr_html_()
    assert "3 is &lt;no&gt; 4" in html
