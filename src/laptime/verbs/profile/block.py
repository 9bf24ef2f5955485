"""`with laptime.profile(): ...` or `@laptime.profile()`: the loop inside, in this very process."""

import functools
import inspect
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, ParamSpec, Self, TypeVar

from laptime.instrument.hooks import Hooks, observe_ranks
from laptime.instrument.importing import WhenImported
from laptime.instrument.step_observer import StepObserver
from laptime.kit.errors import UsageError
from laptime.launch.script import Outcome, Program
from laptime.records.event import Listener
from laptime.records.profile import Profile
from laptime.records.run import IN_MEMORY, Run, Subject
from laptime.reports.formats import text
from laptime.store.live_run import LiveRun, record_run
from laptime.verbs.profile.request import ProfileRequest
from laptime.verbs.profile.run import analyse, no_step, settings
from laptime.verbs.public_run import Run as PublicRun

TIMED = 12  # untraced steps that are timed at most: a loop of 30 steps is to have its trace, too
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class profile:  # noqa: N801, used as torch.profiler.profile is
    """Finds the steps of the loop inside the block, times some and traces a few; the loop runs to its end.

        with laptime.profile(steps=5) as seen:
            train(model, loader)
        print(seen.run)

        @laptime.profile()  # the same around every call of a function
        def train(model, loader): ...

    Args:
        steps: traced steps. warmup: steps before them under the idle profiler. wait: first steps that do not
            count.
        step_by: "optimizer", "loader" or "forward"; "" takes the first of these that the loop has.
        stack: record call stacks and modules. memory: record memory.
        trace: folder to keep the trace in; None keeps it beside the run, if that is saved.
        save: keep the run under .laptime/.
        show: print the report to stdout at the end.

    Raises:
        UsageError: at the end of the block, when there was no step in it."""

    def __init__(
        self,
        *,
        steps: int = 5,
        warmup: int = 2,
        wait: int = 3,
        step_by: Literal["", "optimizer", "loader", "forward"] = "",
        stack: bool = True,
        memory: bool = True,
        trace: Path | str | None = None,
        name: str = "",
        save: bool = False,
        show: bool = True,
    ) -> None:
        self._show = show
        self._request = ProfileRequest(
            program="with laptime.profile()",
            steps=steps,
            warmup=warmup,
            wait=wait,
            step_by=step_by,
            stack=stack,
            memory=memory,
            trace=None if trace is None else Path(trace),
            name=name,
            save=save,
            quiet=True,
            stop=False,
        )
        self._run: Run | None = None
        self._is_open = False

    @property
    def run(self) -> PublicRun:
        """The run, after the block. Raises UsageError: the block has not ended, or had no step."""
        if self._run is None:
            why = "it is made when the block ends, from the steps inside"
            raise UsageError("there is no profile yet", why=why, next="read .run after the with block")
        return PublicRun.of(self._run)

    @property
    def profile(self) -> Profile:
        """Where the time of a step went, after the block.
        Raises UsageError: as for `run`; and when the loop ended before a step was traced."""
        found = self.run.profile
        if found is None:
            raise UsageError(
                "no step was traced",
                why="the loop ended while its first steps were still being timed",
                next="let the loop make more steps, or laptime.profile(wait=0, warmup=1, steps=1)",
            )
        return found

    def __call__(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """The function, profiled whenever it is called; a call from inside it belongs to the outer one.
        Raises UsageError: a generator or coroutine, which has done nothing yet when its call returns."""
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise UsageError(
                f"{function.__name__} cannot be decorated with laptime.profile()",
                why="a call of a generator or coroutine returns before its body has run",
                next="with laptime.profile(): around the loop that runs it",
            )

        @functools.wraps(function)
        def call_profiled(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if self._is_open:
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return call_profiled

    def __enter__(self) -> Self:
        self._run, self._is_open = None, True
        self._live = LiveRun("profile", lambda event: self._emit(event))
        self._work = tempfile.TemporaryDirectory(prefix="laptime-profile-")
        asked = settings(self._request, self._work.name)
        self._observer = StepObserver(replace(asked, timed=min(asked.timed, TIMED)))
        self._hooks = Hooks(self._observer, observe_ranks)
        self._observer.on_done = self._hooks.undo
        self._watch = WhenImported("torch", self._hooks.install)
        self._watch.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._watch.remove()
        self._hooks.undo()
        self._observer.finish()
        with self._work:
            seen = self._observer.observed
            program = Program([], Subject(target=self._request.program, source=IN_MEMORY), sys.executable)
            outcome = Outcome(observed=[seen], interrupted=kind is KeyboardInterrupt)
            if seen.source:
                self._run = self._analyse(program, outcome)
                if self._show:
                    width = shutil.get_terminal_size((100, 24)).columns
                    sys.stdout.write(text.render(self._run, width=width) + "\n")
            elif kind is None:
                raise no_step(program, outcome)

    def _analyse(self, program: Program, outcome: Outcome) -> Run:
        def work(emit: Listener) -> Run:
            self._emit = emit
            return analyse(self._live, self._request, program, outcome, Path(self._work.name))

        run, complaint = record_run(work, save=self._request.save)
        if complaint is not None:
            warnings.warn(str(complaint), stacklevel=3)
        return run
