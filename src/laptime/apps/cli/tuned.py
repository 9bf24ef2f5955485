"""What `tune` and `verify` share: a session is shown while it runs, kept, and reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from laptime.apps.cli import measuring
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.output import Output
from laptime.apps.cli.progress import progress
from laptime.kit.errors import ExitCode, UserCodeError
from laptime.records.event import Diagnosed, Event, GainMeasured, Listener, RungDecided
from laptime.records.run import Run
from laptime.store.recording import Recorded, recorded

if TYPE_CHECKING:
    from laptime.records.tuning import Diagnosis, Measured, Rung


def record(verb: Callable[[Any, Listener], Run], request: Any, *, save: bool, quiet: bool) -> Recorded:
    """Run a session: the bar moves, each decision is a line that stays, and everything is kept."""
    with progress(quiet=quiet, describe=_lines) as show:
        return recorded(lambda emit: verb(request, emit), show, save=save)


def _lines(event: Event) -> list[str]:
    match event:
        case Diagnosed(diagnosis):
            return [_diagnosed(diagnosis)]
        case RungDecided(rung) if rung.verdict != "not tried":  # the report names them
            return [_decided(rung)]
        case GainMeasured(baseline, final):
            return [_measured(baseline, final)]
    return []


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


def deliver(recorded: Recorded, outputs: Sequence[Output], *, as_json: bool, voice: Voice) -> ExitCode:
    """Show the run and write its reports; what was asked but could not be done is complained of."""
    run, complaint = recorded
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
