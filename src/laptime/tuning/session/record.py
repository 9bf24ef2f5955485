"""The record of a session while it goes on, and the events of its run: beginning, cases, checks, end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

from msgspec import structs

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
from laptime.records.metric import Metric
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.records.tuning import Measured, Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session.run_events import checks, quiet_check


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
        live(ChecksMade([*checks(tuning, complaint), *quiet_check(others), *more]))
        live(TuningChanged(tuning))
        return live.finish(self.status)

    def _case(self, axes: dict[str, Axis], side: Measured, metric: Metric, probe: str) -> Case:
        """One side of the final measurement, so that `show`, `compare` and `history` know it."""
        target = self.live.run().subjects[0].target
        samples = [seconds for process in side.samples for seconds in process]
        processes = [number for number, process in enumerate(side.samples) for _ in process]
        series = Series(metric=metric, samples=samples, process=processes, probe=probe)
        return Case(key=case_key(target, axes), target=target, axes=axes, series=[series])
