"""The traced steps beside the untraced ones: what the profiler costs, and where the time goes without it."""

from __future__ import annotations

from statistics import median

import numpy as np
from msgspec import structs

from laptime.analysis.quantiles import interval
from laptime.instrument.result import Observed
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.check import Check
from laptime.records.finding import Finding
from laptime.records.metric import Metric
from laptime.records.profile import Primitive, Profile, Reconciled
from laptime.records.series import Series

STEP = Metric(
    tag="step",
    unit="s",
    title="step",
    better="lower",
    meaning="One step of the loop, untraced: from one boundary of the loop to the next.",
    lies_when="The device runs behind the host and has no clock that is read: the last steps look shorter.",
)
WAIT = Metric(
    tag="step/data",
    unit="s",
    title="wait for data",
    better="lower",
    meaning="Time of the loop in its DataLoader's `__next__`, in one untraced step.",
    lies_when="The data come from something that is no torch DataLoader.",
)
FEW = 5
UNEVEN = 1.25
SLOW = 1.5


def reconciled(profile: Profile, seen: Observed) -> Profile:
    """The profile with the untraced step beside it, and oneDNN's primitives."""
    primitives = [Primitive(**row) for row in seen.primitives or []]
    return structs.replace(profile, reconciled=_beside(profile, seen), primitives=primitives)


def _beside(profile: Profile, seen: Observed) -> Reconciled | None:
    if not seen.untraced:
        return None
    walls = [sample.wall for sample in seen.untraced]
    untraced = round(median(walls))
    traced = (
        round(median(sample.wall for sample in seen.traced))
        if seen.traced
        else profile.overview.step_median_ns
    )
    ends = interval(np.asarray(walls, dtype=float), 0.5)
    host = sum(sample.host for sample in seen.untraced)
    waited = sum(sample.phases.get("data", 0) for sample in seen.untraced)
    return Reconciled(
        untraced_ns=untraced,
        untraced_steps=len(walls),
        untraced_ci95_ns=(round(ends[0]), round(ends[1])) if ends else None,
        traced_ns=traced,
        slowdown=traced / untraced if untraced else 1.0,
        parts_ns=parts(seen, untraced),
        loader_wait_ns=round(waited / len(walls)) if seen.seen.get("fetch") else None,
        threads_busy=sum(sample.cpu for sample in seen.untraced) / host if host else None,
        note=_note(seen, walls),
    )


def parts(seen: Observed, untraced_ns: int) -> dict[str, int]:
    """The median untraced step in parts, each with its share of all untraced steps; they sum to it.

    They are times of the host. Where a device works behind it, "other" holds the waiting for it.
    """
    whole = sum(sample.wall for sample in seen.untraced)
    found = {
        name: round(untraced_ns * sum(sample.phases[name] for sample in seen.untraced) / whole)
        for name in seen.untraced[0].phases
    }
    over = sum(found.values()) - untraced_ns
    if over > 0:  # the device's clock told less than the host's
        found = {name: round(part * untraced_ns / (untraced_ns + over)) for name, part in found.items()}
    return {**found, "other": untraced_ns - sum(found.values())}


def _note(seen: Observed, walls: list[int]) -> str:
    told = [*seen.notes]
    middle, mean = median(walls), sum(walls) / len(walls)
    if middle and mean / middle > UNEVEN:
        told.append(f"steps are uneven: their mean is {mean / middle:.2f}x their median")
    if seen.clock != "host":
        told.append(
            f"steps are timed by {seen.clock}, parts by the host's clock, without waiting for the device"
        )
    return "; ".join(told)


def untraced(seen: Observed) -> list[Finding]:
    """What is known of a step that was never traced."""
    if not seen.untraced:
        return []
    walls = [sample.wall for sample in seen.untraced]
    shown = {name: show(part / 1e9, "s") for name, part in parts(seen, round(median(walls))).items()}
    told = ", ".join(f"{name} {part}" for name, part in shown.items())
    sentence = f"a step took {show(median(walls) / 1e9, 's')} (median of {len(walls)}, untraced): {told}"
    return [Finding(kind="profile/untraced", sentence=sentence, evidence={"steps_ns": walls})]


def series(seen: Observed) -> list[Series]:
    """The untraced steps as they were measured."""
    if not seen.untraced:
        return []
    found = [
        Series(metric=STEP, samples=[s.wall / 1e9 for s in seen.untraced], probe="hooks", clock=seen.clock)
    ]
    if seen.seen.get("fetch"):
        waits = [s.phases["data"] / 1e9 for s in seen.untraced]
        found.append(Series(metric=WAIT, samples=waits, probe="hooks", clock="host"))
    return found


def checks(seen: Observed, profile: Profile | None) -> list[Check]:
    """Can the steps be trusted: enough of them untraced, not too much slower when traced?"""
    timed = len(seen.untraced)
    found = [
        Check(name="untraced", outcome="ok", sentence=f"{count(timed, 'step')} timed without the profiler")
    ]
    if timed < FEW:
        sentence = f"only {count(timed, 'step')} timed without the profiler"
        found = [
            Check(name="untraced", outcome="warn", sentence=sentence, next="let the script run more steps")
        ]
    if not seen.traces:
        sentence = f"nothing was traced: the script ended after {count(seen.settled + timed, 'step')}"
        advice = "let it run longer, or   --wait 1 --warmup 1 --steps 2"
        found.append(Check(name="traced", outcome="fail", sentence=sentence, next=advice))
    slowdown = profile.reconciled.slowdown if profile and profile.reconciled else 0.0
    if slowdown > SLOW:
        sentence = (
            f"the profiler made a step {slowdown:.1f}x as long: times of the host in the trace are stretched"
        )
        found.append(Check(name="slowdown", outcome="note", sentence=sentence, next="--no-stack --no-memory"))
    return found
