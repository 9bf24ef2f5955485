"""Traced steps beside untraced ones: what the profiler costs, and where the time goes without it."""

from statistics import median

import numpy as np
from msgspec import structs

from laptime import rules
from laptime.analysis.quantiles import interval
from laptime.instrument.messages import Observed
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.check import Check, Finding
from laptime.records.profile import Primitive, Profile, Reconciled
from laptime.records.series import Series, read_metrics

STEP, WAIT = read_metrics("""
step s lower step
    One step of the loop, untraced: from one boundary of the loop to the next.
    Lies when: The device runs behind the host and has no clock that is read: the last steps look shorter.
step/data s lower wait for data
    Time of the loop in its DataLoader's `__next__`, in one untraced step.
    Lies when: The data come from something that is not a torch DataLoader.
""")
BEHIND = "steps are timed by {}, parts by the host's clock, without waiting for the device"
FEW, UNEVEN, LITTLE, SLOW = 5, 1.25, 0.02, 1.5


def reconcile(profile: Profile, observed: Observed, others: float | None = None) -> Profile:
    """The profile judged by the untraced step beside it. others: CPUs that other programs used on average."""
    primitives = [Primitive(**row) for row in observed.primitives or []]
    facts = profile.facts | ({"denormal": observed.denormal} if observed.denormal else {})
    profile = structs.replace(profile, primitives=primitives, facts=facts)
    profile = structs.replace(profile, reconciled=_beside(profile, observed, others))
    verdict = rules.verdict(profile)
    if not rules.renews_workers(profile):
        verdict = structs.replace(verdict, sentence=_beside_steps(observed) + verdict.sentence)
    return structs.replace(profile, verdict=verdict)


def _beside_steps(observed: Observed) -> str:
    """Say what a median step does not show of the loop, to be said first; "" if it shows enough."""
    walls = [step.host for step in observed.untraced]
    whole, usual = sum(walls) + observed.outside, len(walls) * median(walls or [0])
    if whole <= UNEVEN * usual:
        return ""
    outside = observed.outside / whole
    why = f", {percent(outside)} of it outside of steps" if outside > LITTLE else ": steps differ"
    return f"The loop takes {whole / usual:.1f} times its median step{why}. Of such a step: "


def _beside(profile: Profile, observed: Observed, others: float | None) -> Reconciled | None:
    steps = observed.untraced
    if not steps:
        return None
    walls = [step.wall for step in steps]
    untraced = round(median(walls))
    traced_walls = [step.wall for step in observed.traced] or [profile.overview.step_median_ns]
    traced = round(median(traced_walls))
    ends = interval(np.asarray(walls, dtype=float), 0.5)
    host = sum(step.host for step in steps)
    waited = sum(step.phases.get("data", 0) for step in steps)
    return Reconciled(
        untraced_ns=untraced,
        untraced_steps=len(walls),
        untraced_ci95_ns=(round(ends[0]), round(ends[1])) if ends else None,
        traced_ns=traced,
        slowdown=traced / untraced if untraced else 1.0,
        parts_ns=parts(observed, untraced),
        loader_wait_ns=round(waited / len(walls)) if observed.seen.get("fetch") else None,
        **_between(observed),
        threads_busy=sum(step.cpu for step in steps) / host if host else None,
        others=others,
        note="; ".join([*observed.notes, *[BEHIND.format(observed.clock)] * (observed.clock != "host")]),
    )


def _between(observed: Observed) -> dict[str, int]:
    """Return the untraced loop's times between its steps, and what new workers cost; ns per step."""
    steps, forward = observed.untraced, observed.outside_phases.get("forward", 0)
    waits = [step.phases.get("data", 0) for step in steps]
    usual = round(median(waits))
    waited = sum(max(0, waits[at] - usual) for at in observed.firsts) if observed.workers else 0
    totals = {
        "outside_ns": observed.outside,
        "evaluation_ns": forward and forward + observed.outside_phases.get("data", 0),
        "workers_ns": observed.workers + waited,
        "workers_wait_ns": waited,
    }
    return {"pauses": len(observed.firsts), **{name: ns // len(steps) for name, ns in totals.items()}}


def parts(observed: Observed, untraced_ns: int) -> dict[str, int]:
    """The median untraced step in parts, each with its share of all untraced steps; they sum to it.

    They are times of the host. If a device works behind it, "other" holds the waiting for it."""
    steps = observed.untraced
    whole = sum(step.wall for step in steps)
    shares = {name: sum(step.phases[name] for step in steps) / whole for name in steps[0].phases}
    times = {name: round(untraced_ns * share) for name, share in shares.items()}
    total = sum(times.values())
    if total > untraced_ns:  # the device's clock shows less time than the host's
        times = {name: round(part * untraced_ns / total) for name, part in times.items()}
    return {**times, "other": untraced_ns - sum(times.values())}


def find_untraced(observed: Observed) -> list[Finding]:
    """Return findings about the steps of a script that ended before any was traced."""
    if not observed.untraced:
        return []
    walls = [step.wall for step in observed.untraced]
    times = parts(observed, round(median(walls)))
    listed = ", ".join(f"{name} {show(part / 1e9, 's')}" for name, part in times.items())
    sentence = f"a step took {show(median(walls) / 1e9, 's')} (median of {len(walls)}, untraced): {listed}"
    return [Finding(kind="profile/untraced", sentence=sentence, evidence={"steps_ns": walls})]


def series(observed: Observed) -> list[Series]:
    """The untraced steps as they were measured."""
    steps = observed.untraced
    walls, waits = [step.wall / 1e9 for step in steps], [step.phases.get("data", 0) / 1e9 for step in steps]
    step = Series(metric=STEP, samples=walls, probe="hooks", clock=observed.clock)
    wait = Series(metric=WAIT, samples=waits, probe="hooks", clock="host")
    return [step, *([wait] if observed.seen.get("fetch") else [])] if steps else []


def checks(observed: Observed, profile: Profile | None) -> list[Check]:
    """Can the steps be trusted: enough of them untraced, not too much slower when traced?"""
    timed = len(observed.untraced)
    sentence = f"{count(timed, 'step')} timed without the profiler"
    few = Check(name="untraced", outcome="warn", sentence=f"only {sentence}", next="let it run more steps")
    result = [few if timed < FEW else Check(name="untraced", outcome="ok", sentence=sentence)]
    if not observed.traces:
        sentence = f"nothing was traced: the script ended after {count(observed.settled + timed, 'step')}"
        advice = "--wait 1 --warmup 1 --steps 2   or let it run longer"
        result.append(Check(name="traced", outcome="fail", sentence=sentence, next=advice))
    slowdown = profile.reconciled.slowdown if profile and profile.reconciled else 0.0
    if slowdown > SLOW:
        sentence = f"the profiler made a step {slowdown:.1f}x as long: host times in the trace are stretched"
        result.append(
            Check(name="slowdown", outcome="note", sentence=sentence, next="--no-stack --no-memory")
        )
    return result
