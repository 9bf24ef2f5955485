"""`laptime(function, *args)` in a test: its result, measured meanwhile in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from laptime.kit.errors import LaptimeError, UsageError

if TYPE_CHECKING:
    from laptime.apps.pytest_plugin.session import Session
    from laptime.verbs.public_run import Run


class Measure:
    """The fixture. One test measures one call."""

    def __init__(self, name: str, session: Session) -> None:
        self._name, self._session = name, session
        self._run: Run | None = None
        self._is_used = False
        self.extra_info: dict[str, Any] = {}  # facts that are kept beside the timings, as in pytest-benchmark

    @property
    def run(self) -> Run:
        """The run that was measured: `laptime.run.latency.value` is the median in seconds.
        Raises UsageError: nothing was measured, with --laptime-disable too."""
        if self._run is None:
            raise UsageError(
                "this test has measured nothing yet",
                why="laptime(function, ...) was not called, or --laptime-disable was given",
                next="call laptime(function, *args) first",
            )
        return self._run

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The function's result, from a first call; then its timings, until the budget is spent.
        Raises UsageError: the test measures a second time. UserCodeError: a later call fails."""
        from laptime.verbs import api  # not before a test measures

        def call() -> Any:
            return function(*args, **kwargs)

        self._use_once()
        result = call()
        if self._session.options.disable:
            return result
        call.__name__ = getattr(function, "__name__", type(function).__name__)
        run = api.bench_call(call, budget=self._session.options.budget)
        if run.cases and (failure := run.cases[0].failure) is not None:
            raise LaptimeError(failure.what, why=failure.why, next=failure.next)
        self._run = run
        return result

    def pedantic(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        setup: Callable[[], Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Any:
        """So many rounds and no more, each after a `setup` that is not timed; the last result.
        setup: may return (args, kwargs) of the next round. iterations: calls in a round; a sample is their
        mean. 1 if there is a setup.
        Raises UsageError: counts below 1, iterations beside a setup, or a second measurement in the test."""
        from laptime.apps.pytest_plugin import rounds as counted

        self._use_once()
        plan = counted.Plan(target, args, kwargs or {}, setup, iterations)
        if self._session.options.disable:
            rounds, warmup_rounds = 1, 0
        run, result = counted.measure(plan, rounds=rounds, warm_up=warmup_rounds)
        if not self._session.options.disable:
            self._run = run
        return result

    def close(self) -> None:
        """The test is over: its run joins the session's."""
        if self._run is not None:
            self._session.add(self._name, self._run, self.extra_info)

    def _use_once(self) -> None:
        if self._is_used:
            raise UsageError(
                "a test measures one call",
                why=f"{self._name} measures a second one, and the table has one line for each test",
                next="write a second test, or use pytest.mark.parametrize",
            )
        self._is_used = True
