"""What `tune` and `verify` share: a session told while it runs, then kept, shown, and made an exit code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from laptime.apps.cli import measuring
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.output import Output
from laptime.apps.cli.progress import Listener, Said, progress
from laptime.apps.cli.saving import saved
from laptime.kit.errors import ExitCode, UserCodeError
from laptime.records.event import Progress
from laptime.records.run import Run

if TYPE_CHECKING:
    from laptime.records.tuning import Diagnosis, Measured, Rung
    from laptime.tuning.session.tune import Heard

Tell = Callable[["Heard"], None]


@contextmanager
def told(*, quiet: bool, budget: float) -> Iterator[Tell]:
    """A listener for a session: the bar moves, each decision is a line that stays."""
    with contextlib.ExitStack() as stack:
        show = stack.enter_context(progress(quiet=quiet))
        yield _Telling(show, budget)


class _Telling:
    """Turns what a session tells into lines and a bar."""

    def __init__(self, show: Listener, budget: float) -> None:
        self._show = show
        self._budget = budget
        self._done = 0.0

    def __call__(self, heard: Heard) -> None:
        self._done = max(self._done, min(max(heard.done, 0.0), 1.0))
        for line in self._lines(heard):
            self._show(Said(line))
        text = f"trying {heard.trying}" if heard.trying else heard.text
        if text:
            left = (1.0 - self._done) * self._budget
            self._show(Progress(done=self._done, remaining=left, text=text))

    def _lines(self, heard: Heard) -> list[str]:
        found = []
        if heard.diagnosis is not None:
            found.append(_diagnosed(heard.diagnosis))
        if heard.rung is not None and heard.rung.verdict != "not tried":  # the report names them
            found.append(_decided(heard.rung))
        if heard.measured is not None:
            found.append(_measured(*heard.measured))
        return found


def _diagnosed(own: Diagnosis) -> str:
    from laptime.kit.units import show
    from laptime.reports._tuning import words

    whose = f" with {', '.join(words.change(each) for each in own.recipe)}" if own.recipe else ""
    said = f": {own.sentence}" if own.sentence else ""
    return (
        f"diagnosed{whose}: a step takes {show(own.step, 's')}, bound by {own.bound or 'nothing known'}{said}"
    )


def _decided(rung: Rung) -> str:
    from laptime.reports._tuning import words

    effect = words.effect(rung.speedup, rung.ci95)
    parts = [words.ratio(rung.memory) + " the memory"] if rung.verdict in ("smaller", "larger") else []
    parts += [effect] if effect != "-" else []
    what = " ".join([*parts, rung.verdict])
    kept = "dropped" if rung.dropped else "kept" if rung.kept else ""
    gate = f"gate {rung.gate.word}" if rung.gate.word != "none" else ""
    line = ", ".join(filter(None, [f"{words.label(rung)}: {what}", gate, kept]))
    reason = words.reason(rung)
    return f"{line}: {reason}" if reason and not rung.kept else line


def _measured(first: Measured, last: Measured) -> str:
    from laptime.reports._tuning import words

    return f"measured afresh: {words.rate(first)} -> {words.rate(last)} samples/s"


def deliver(run: Run, outputs: Sequence[Output], *, as_json: bool, save: bool, voice: Voice) -> ExitCode:
    """Keep the run, show it, write its reports; what was asked but could not be done is complained of."""
    run, complaint = saved(run, save=save)
    code = measuring.deliver(run, outputs, format="json" if as_json else "text", voice=voice)
    if complaint is not None:
        code = voice.complain(complaint)
    for case in run.cases:
        if case.failure is not None:
            failure = case.failure
            voice.complain(UserCodeError(failure.what, why=failure.why, next=failure.next))
    return code


def exit_code(run: Run) -> ExitCode:
    """What the session says to a script: see `analysis.tuned`; code that failed goes before."""
    from laptime.analysis import tuned

    if run.status == "failed" or run.tuning is None:
        return measuring.exit_code(run) or ExitCode.USER_CODE
    return tuned.exit_code(run)


def flags(context: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Origins of the settings that were typed."""
    from click.core import ParameterSource

    typed = {name for name in given if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    return dict.fromkeys(sorted(typed), "flag")
