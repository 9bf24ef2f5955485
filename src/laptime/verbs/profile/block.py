"""`with laptime.profile(): ...`: the loop inside the block, in this very process."""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from types import TracebackType
from typing import Literal

from laptime.instrument.hooks import Hooks
from laptime.instrument.importing import WhenImported
from laptime.instrument.spawned import observe_ranks
from laptime.instrument.step_observer import StepObserver
from laptime.launch.script import Outcome, Program
from laptime.records.event import Listener
from laptime.records.run import Run, Subject
from laptime.reports.formats import text
from laptime.store.live_run import LiveRun
from laptime.store.recording import recorded
from laptime.verbs.profile.failures import no_step
from laptime.verbs.profile.request import ProfileRequest
from laptime.verbs.profile.run import analysed, settings


class profile:  # noqa: N801, used as torch.profiler.profile is
    """Finds the steps of the loop inside the block, times some and traces a few; the loop runs to its end.

        with laptime.profile(steps=5) as seen:
            train(model, loader)
        print(seen.run.profile.verdict.sentence)

    Args:
        steps: traced steps. warmup: steps before them under the idle profiler. wait: first steps that do not
            count.
        step_by: "optimizer", "loader" or "forward"; "" takes the first of these that the loop has.
        stack: record call stacks and modules. memory: record memory.
        trace: folder to keep the trace in; None keeps it beside the run, if that is saved.
        save: keep the run under .laptime/.
        show: print the report to stdout at the end.

    Attributes:
        run: what was found; None until the block has ended.

    Raises:
        UsageError: at the end of the block, when there was no step in it.
    """

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
        self.run: Run | None = None

    def __enter__(self) -> profile:
        self._live = LiveRun("profile", lambda event: self._emit(event))
        self._work = tempfile.TemporaryDirectory(prefix="laptime-profile-")
        self._observer = StepObserver(settings(self._request, self._work.name))
        self._hooks = Hooks(self._observer, observe_ranks)
        self._observer.on_done = self._hooks.undo
        self._watch = WhenImported("torch", self._hooks.install)
        self._watch.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.remove()
        self._hooks.undo()
        self._observer.finish()
        with self._work:
            seen = self._observer.observed
            program = Program([], Subject(target=self._request.program), sys.executable)
            outcome = Outcome(observed=[seen], interrupted=kind is KeyboardInterrupt)
            if seen.source:
                self.run = self._analysed(program, outcome)
                if self._show:
                    width = shutil.get_terminal_size((100, 24)).columns
                    sys.stdout.write(text.render(self.run, width=width) + "\n")
            elif kind is None:
                raise no_step(program, outcome)

    def _analysed(self, program: Program, outcome: Outcome) -> Run:
        def work(emit: Listener) -> Run:
            self._emit = emit
            return analysed(self._live, self._request, program, outcome, Path(self._work.name))

        run, complaint = recorded(work, save=self._request.save)
        if complaint is not None:
            warnings.warn(str(complaint), stacklevel=3)
        return run
