"""What `tune` and `verify` share: show a session while it runs, store it, report it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import Decorated, time_option
from laptime.apps.cli.output import Output
from laptime.apps.cli.progress import progress
from laptime.kit.errors import ExitCode, UserCodeError
from laptime.kit.units import show
from laptime.records.event import Diagnosed, Event, GainMeasured, Listener, RungDecided
from laptime.records.run import Run
from laptime.store.recording import Recorded, recorded

if TYPE_CHECKING:
    from laptime.records.tuning import Diagnosis, Rung


def trial_options(command: Decorated) -> Decorated:
    """`--python` and `--timeout`: how each trial process runs."""
    command = time_option("--timeout", "Time limit of one trial.  [default: 10m]", default=600.0)(command)
    help_text = (
        "Interpreter that runs the script; of a model NAME=PATH: where a runtime of it is installed, "
        "openvino=.venv-ov. [default: laptime's own]"
    )
    return click.option("--python", metavar="PATH", default="", help=help_text)(command)


def record(
    verb: Callable[[Any, Listener], Run], request: Any, *, save: bool, quiet: bool, items: str = ""
) -> Recorded:
    """Run and store a session: the bar moves, each decision is a line that stays.

    Args:
        items: what a rate counts; "": samples, or steps.
    """
    with progress(quiet=quiet, describe=Lines(items)) as listener:
        return recorded(lambda emit: verb(request, emit), listener, save=save)


class Lines:
    """The lines that stay of a session: each decision once, and again where it has changed."""

    def __init__(self, items: str = "") -> None:
        """`items`: what a rate counts; "": samples, or steps."""
        self._items = items
        self._decided: dict[tuple[str, str], tuple[str, bool, bool, str]] = {}

    def __call__(self, event: Event) -> list[str]:
        """What there is to say of this event."""
        from laptime.reports.documents.tuning import words  # not for `laptime --help`

        match event:
            case Diagnosed(diagnosis):
                return [_diagnosed(diagnosis)]
            case RungDecided(rung) if rung.verdict != "not tried":  # the report names them
                return [_decided(rung)] if self._is_news(rung) else []
            case GainMeasured(baseline, final):
                rates = f"{words.rate(baseline)} -> {words.rate(final)}"
                return [f"measured afresh: {rates} {self._items or words.counted(final)}/s"]
        return []

    def _is_news(self, rung: Rung) -> bool:
        """Whether it was decided, or anew and otherwise: a kept one that stays has a longer reason."""
        decision = (rung.verdict, rung.kept, rung.dropped, "" if rung.kept else rung.reason)
        key = (rung.label or rung.name, str(rung.ratios))
        is_news = self._decided.get(key) != decision
        self._decided[key] = decision
        return is_news


def _diagnosed(diagnosis: Diagnosis) -> str:
    from laptime.reports.documents.tuning import words

    if not diagnosis.bound:
        names = ", ".join(map(words.change, diagnosis.recipe)) or "as it is"
        call = f"a call takes {show(diagnosis.step, 's')}"
        return f"{names}: {diagnosis.sentence or call}"
    recipe = f" with {', '.join(map(words.change, diagnosis.recipe))}" if diagnosis.recipe else ""
    bound = f"bound by {diagnosis.bound}"
    why = f": {diagnosis.sentence}" if diagnosis.sentence else ""
    return f"diagnosed{recipe}: a step takes {show(diagnosis.step, 's')}, {bound}{why}"


def _decided(rung: Rung) -> str:
    from laptime.reports.documents.tuning import words

    effect = words.effect(rung.speedup, rung.ci95)
    result = rung.verdict if effect == "-" else f"{effect} {rung.verdict}"
    if rung.verdict in ("smaller", "larger"):
        speed = "" if effect == "-" else f" at {effect} the speed"
        result = f"{words.ratio(rung.memory)} the memory{speed}"
    decision = "dropped" if rung.dropped else "kept" if rung.kept else ""
    gate = f"gate {rung.gate.word}" if rung.gate.word != "none" else ""
    line = ", ".join(filter(None, [f"{words.change(rung)}: {result}", gate, decision]))
    reason = words.reason(rung)
    is_told = not rung.kept or rung.speedup is None  # of what won together, the reason says with what
    return f"{line}: {reason}" if reason and is_told else line


def deliver(recorded: Recorded, outputs: Sequence[Output], *, as_json: bool, voice: Voice) -> ExitCode:
    """Show the run, write its reports, and say on stderr what could not be done."""
    run, complaint = recorded
    code = output.deliver(run, outputs, format="json" if as_json else "text", voice=voice)
    if complaint is not None:
        code = voice.complain(complaint)
    for case in run.cases:
        if case.failure is not None:
            failure = case.failure
            voice.complain(UserCodeError(failure.what, why=failure.why, next=failure.next))
    return code


def exit_code(run: Run) -> ExitCode:
    """The exit code of a session, as in `analysis.tuned`; a script that failed goes first."""
    from laptime.analysis import tuned

    if run.status == "failed" or run.tuning is None:
        return output.exit_code(run) or ExitCode.USER_CODE
    return tuned.exit_code(run)
