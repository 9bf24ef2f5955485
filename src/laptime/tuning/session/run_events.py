"""The events of a session's run, whatever is tuned: its beginning, its cases and checks, its end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Literal

from laptime.analysis.tuned import DRY
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.event import (
    CaseChanged,
    ChecksMade,
    EnvironmentChanged,
    RungDecided,
    TuningChanged,
    so_far,
)
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.records.tuning import Measured, Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.verbs.profile.reconcile import STEP

MOST_OTHERS = 0.1
"""Share of the CPUs that other programs may use during a session."""


def start(
    live: LiveRun,
    request: Any,
    settings: Sequence[str],
    subject: Subject,
    tuning: Tuning,
    earlier: Sequence[Rung] = (),
    **more: Any,
) -> None:
    """Report a run that begins.

    Args:
        settings: fields of the request that make up the plan. tuning: of a session that begins.
        earlier: rungs of the session that is resumed. more: fields of the run besides.
    """
    live.start(
        name=request.name,
        subjects=[subject],
        environment=machine.environment(),
        plan={
            name: Setting(value=getattr(request, name), origin=request.origins.get(name, "default"))
            for name in settings
        },
        tuning=reduce(so_far, map(RungDecided, earlier), tuning),
        **more,
    )


def finish(
    live: LiveRun,
    tuning: Tuning,
    *,
    environment: Environment,
    axes: Mapping[str, Any],
    status: Literal["complete", "interrupted"],
    complaint: str = "",
    others: float | None = None,
) -> Run:
    """Report the tuning of a session; the run.

    Args:
        axes: of the cases, besides the variant.
        complaint: why its journal could not be written, "" if it was.
        others: CPUs that other programs used meanwhile, on the average; None where that is not known.
    """
    live(EnvironmentChanged(environment))
    target = live.run().subjects[0].target
    for name, side in (("baseline", tuning.baseline), ("final", tuning.final)):
        if side is not None:
            live(CaseChanged(_case(target, {"variant": name, **axes}, side)))
    live(ChecksMade([*checks(tuning, complaint), *quiet_check(others)]))
    live(TuningChanged(tuning))
    return live.finish(status)


def _case(target: str, axes: dict[str, Any], side: Measured) -> Case:
    """One side of the final measurement, so that `show`, `compare` and `history` know it."""
    samples = [seconds for process in side.samples for seconds in process]
    processes = [number for number, process in enumerate(side.samples) for _ in process]
    return Case(
        key="/".join([target, *(f"{name}={value}" for name, value in axes.items())]),
        target=target,
        axes=axes,
        series=[Series(metric=STEP, samples=samples, process=processes, probe="wall")],
    )


def checks(tuning: Tuning, complaint: str = "") -> list[Check]:
    """Whether the gain was measured and the gate passed; a complaint about the journal."""
    checks = []
    if complaint:
        sentence = f"the session could not be saved for --resume: {complaint}"
        checks.append(
            Check(name="kept", outcome="note", sentence=sentence, next="LAPTIME_HOME=another/FOLDER")
        )
    if tuning.ended != DRY:
        checks.append(_measured_check(tuning))
    if tuning.gate.word == "failed":
        checks.append(Check(name="gate", outcome="fail", sentence=tuning.gate.reason, next="--strict"))
    return checks


def quiet_check(others: float | None) -> list[Check]:
    """A warning where other programs had more of the CPUs than races can bear."""
    cpus = os.cpu_count() or 1
    if others is None or others < MOST_OTHERS * cpus:
        return []
    used = f"other programs used {others:.1f} of {cpus} CPUs meanwhile"
    sentence = f"{used}: what runs beside them takes longer, and scatters"
    return [Check(name="quiet", outcome="warn", sentence=sentence, next="laptime doctor")]


def _measured_check(tuning: Tuning) -> Check:
    speedup = tuning.speedup
    if speedup is None:
        return Check(name="measured", outcome="note", sentence="no gain was measured afresh")
    if speedup.word == "unclear":
        low, high = speedup.ci95
        sentence = f"{speedup.pairs} pairs leave open whether it is faster: [{low:.3g}, {high:.3g}]"
        return Check(name="measured", outcome="warn", sentence=sentence, next="--budget 30m")
    sentence = f"measured afresh in {speedup.pairs} pairs of processes"
    return Check(name="measured", outcome="ok", sentence=sentence)
