"""The record of a session while it goes on, and the events of its run: beginning, cases, checks, end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.probes import machine
from laptime.records.case import Axis, Case, case_key
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
from laptime.records.run import Run
from laptime.records.series import Metric, Series
from laptime.records.tuning import Measured, Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.search.ladder import SearchResult

MOST_OTHERS = 0.1
"""Share of the CPUs that other programs may use during a session."""


class Record:
    """What a session knows so far.

    Attributes:
        live: its run. request: what is asked. elapsed: seconds since it began.
        tuning: the record. search: what it came to; None before it ended. status: complete, interrupted.
    """

    def __init__(self, live: LiveRun, request: Any, elapsed: Callable[[], float], **fields: Any) -> None:
        """`fields`: of the tuning that begins."""
        self.live, self.request, self.elapsed = live, request, elapsed
        self.status: Literal["complete", "interrupted"] = "complete"
        self.search: SearchResult | None = None
        mode: Literal["certify", "fast"] = "certify" if request.certify else "fast"
        self.tuning = Tuning(
            goal=request.goal, mode=mode, budget=request.budget, ended="interrupted", **fields
        )

    def set(self, **fields: Any) -> None:
        """Set fields of the record."""
        self.tuning = structs.replace(self.tuning, **fields)

    def set_part(self, part: str, **fields: Any) -> None:
        """Set fields of a part of the record: its patch, model or server."""
        self.set(**{part: structs.replace(getattr(self.tuning, part), **fields)})

    def say(self, text: str) -> None:
        """Tell what is going on, and how much of the budget is left."""
        budget = self.request.budget
        done = min(0.99, self.elapsed() / budget)
        self.live.say(text, done, (1.0 - done) * budget)

    def start(self, plan: Sequence[str], earlier: Sequence[Rung], fields: Mapping[str, Any]) -> None:
        """Report a run that begins.

        Args:
            plan: fields of the request that are its plan. earlier: rungs of the session that is resumed.
            fields: of the run besides.
        """
        request = self.request
        self.live.start(
            name=request.name,
            environment=machine.environment(),
            plan={
                name: Setting(value=getattr(request, name), origin=request.origins.get(name, "default"))
                for name in plan
            },
            tuning=reduce(so_far, map(RungDecided, earlier), self.tuning),
            **fields,
        )

    def finish(
        self,
        environment: Environment,
        axes: Mapping[str, Axis],
        metric: Metric,
        probe: str,
        more: Sequence[Check] = (),
        *,
        complaint: str = "",
        others: float | None = None,
    ) -> Run:
        """Report the record; the run.

        Args:
            axes: of the cases, besides the variant. metric, probe: of their samples. more: checks.
            complaint: why the journal could not be written, "" if it was.
            others: CPUs that other programs used meanwhile, on the average; None if that is not known.
        """
        live, tuning = self.live, self.tuning
        live(EnvironmentChanged(environment))
        for name, side in (("baseline", tuning.baseline), ("final", tuning.final)):
            if side is not None:
                live(CaseChanged(self._case({"variant": name, **axes}, side, metric, probe)))
        live(ChecksMade([*_checks(tuning, complaint), *quiet_check(others), *more]))
        live(TuningChanged(tuning))
        return live.finish(self.status)

    def _case(self, axes: dict[str, Axis], side: Measured, metric: Metric, probe: str) -> Case:
        """One side of the final measurement, so that `show`, `compare` and `history` know it."""
        target = self.live.run().subjects[0].target
        samples = [seconds for process in side.samples for seconds in process]
        processes = [number for number, process in enumerate(side.samples) for _ in process]
        series = Series(metric=metric, samples=samples, process=processes, probe=probe)
        return Case(key=case_key(target, axes), target=target, axes=axes, series=[series])


def _checks(tuning: Tuning, complaint: str = "") -> list[Check]:
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
