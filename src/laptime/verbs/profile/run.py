"""`profile`: where the time of a script's steps goes, the script itself unmodified.

request ── a command ── the script under hooks ── what each process observed, and its trace
                        (laptime.instrument)          │
                                                      ├── traces analysed as `laptime trace` does
                                                      └── reconciled with the untraced steps ── Run
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from laptime import rules
from laptime.instrument.result import Ended, Observed
from laptime.instrument.settings import Settings
from laptime.kit.clock import utc_now
from laptime.kit.errors import LaptimeError
from laptime.kit.package import __version__
from laptime.launch.script import Outcome, Program, execute, resolve
from laptime.probes import machine
from laptime.records.case import Artifact, Case, Failure
from laptime.records.check import Check
from laptime.records.environment import Device, Environment
from laptime.records.plan import Setting
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.store import folder
from laptime.verbs import trace
from laptime.verbs.profile import reconcile
from laptime.verbs.profile.failures import failure_of, no_step
from laptime.verbs.profile.request import ProfileRequest

_PLANNED = ("steps", "warmup", "wait", "repeat", "step_by", "stack", "memory", "timeout")


Progress = Callable[[float, str], None]
"""Hears the share of work done and what is going on."""


def profile(request: ProfileRequest, progress: Progress = lambda done, text: None) -> Run:
    """Run the script until its steps are observed, and say where their time goes.

    Returns:
        The run, not stored yet. Its one case has the untraced steps; `status` is failed where the script
        failed, interrupted after Ctrl-C: what was measured until then is in it.

    Raises:
        UsageError: there is no such script, or no step was found in it.
        UserCodeError: it failed before a step was measured.
    """
    started = Started.now()
    program = _program(request)
    with tempfile.TemporaryDirectory(prefix="laptime-profile-") as work:
        outcome = execute(
            program,
            settings=settings(request, work),
            timeout=request.timeout,
            output_to_stderr=request.output_to_stderr,
        )
        if not any(seen.source for seen in outcome.observed):
            raise failure_of(program, outcome) or no_step(program, outcome)
        return told(request, program, outcome, Path(work), started=started, progress=progress)


def _program(request: ProfileRequest) -> Program:
    target_loop = [f"--{key}={getattr(request, key)}" for key in ("batch", "dtype", "device")]
    return resolve(
        request.program,
        request.arguments,
        is_module=request.module,
        python=request.python,
        target_loop=target_loop,
    )


class Started(NamedTuple):
    """When a run began."""

    run_id: str
    time: str
    clock: float

    @classmethod
    def now(cls) -> Started:
        """A run that begins now."""
        return cls(folder.new_id(), utc_now(), time.perf_counter())


def told(
    request: ProfileRequest,
    program: Program,
    outcome: Outcome,
    work: Path,
    *,
    started: Started,
    progress: Progress,
) -> Run:
    """The run that an outcome with steps comes to; its traces are copied from `work` to where they stay."""
    kept, complaint = _kept(request, started.run_id, work, outcome.observed)
    found, broken = _analysed(kept or _traces(work, outcome.observed), progress)
    seen = outcome.observed[0]
    if found is not None:
        found = reconcile.reconciled(found, seen)
    failure = failure_of(program, outcome)
    checks = [*reconcile.checks(seen, found), *complaint, *broken]
    if found is not None:
        checks += trace.checks(found)
    where = environment(seen)
    return Run(
        id=started.run_id,
        verb="profile",
        name=request.name,
        started=started.time,
        laptime=__version__,
        command=["laptime", *sys.argv[1:]],
        status="interrupted" if outcome.interrupted else "failed" if failure else "complete",
        seconds=time.perf_counter() - started.clock,
        subjects=[program.subject],
        environment=where,
        plan=_plan(request),
        cases=[_case(program, seen, failure, outcome, kept)],
        checks=checks,
        findings=reconcile.untraced(seen) if found is None else rules.diagnose(found, where),
        profile=found,
    )


def settings(request: ProfileRequest, work: str) -> Settings:
    """What the hooked process is told."""
    return Settings(
        folder=work,
        steps=request.steps,
        warmup=request.warmup,
        wait=request.wait,
        repeat=request.repeat,
        step_by=request.step_by,
        stack=request.stack,
        memory=request.memory,
        quiet=request.quiet,
        stop=request.stop,
    )


def _plan(request: ProfileRequest) -> dict[str, Setting]:
    return {
        name: Setting(value=getattr(request, name), origin=request.origins.get(name, "default"))
        for name in _PLANNED
    }


def _traces(work: Path, observed: list[Observed]) -> list[Path]:
    """The last trace of every rank: with --repeat there are more of them, all of them kept."""
    return [work / seen.traces[-1] for seen in observed if seen.traces]


def _kept(
    request: ProfileRequest, run_id: str, work: Path, observed: list[Observed]
) -> tuple[list[Path], list[Check]]:
    """The last trace of every rank where it is kept, and a word when it could not be."""
    names = [name for seen in observed for name in seen.traces]
    if not names or (request.trace is None and not request.save):
        return [], []
    try:
        home = request.trace or folder.month_of(run_id, folder.home()) / f"{run_id}.traces"
        home.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(work / name, home / name)
    except OSError as error:
        sentence = f"the trace could not be kept: {error.strerror or error}"
        return [], [Check(name="kept", outcome="note", sentence=sentence, next="--trace another/FOLDER")]
    return _traces(home, observed), []


def _analysed(paths: list[Path], progress: Progress) -> tuple[Profile | None, list[Check]]:
    if not paths:
        return None, []
    try:
        return trace.analyse(paths, progress=progress), []
    except LaptimeError as error:
        sentence = f"the trace could not be read: {error.what}: {error.why}"
        return None, [Check(name="complete", outcome="fail", sentence=sentence, next="profile once more")]


def _case(
    program: Program, seen: Observed, failure: LaptimeError | None, outcome: Outcome, kept: list[Path]
) -> Case:
    device = seen.devices[0]["name"].partition(":")[0] if seen.devices else "cpu"
    told = next((ended for ended in outcome.ended if ended.traceback), Ended(how="", status=0))
    return Case(
        key=f"{program.subject.target}/device={device}",
        target=program.subject.target,
        axes={"device": device},
        status="interrupted" if outcome.interrupted else "failed" if failure else "ok",
        failure=Failure(
            kind="user_code",
            what=failure.what,
            why=failure.why,
            next=failure.next,
            traceback=told.traceback,
        )
        if failure
        else None,
        series=reconcile.series(seen),
        checks=reconcile.checks(seen, None),
        artifacts=[_artifact(path) for path in kept],
        details={
            "steps_found_by": seen.source,
            "seen": seen.seen,
            "settled": seen.settled,
            "notes": seen.notes,
        },
    )


def _artifact(path: Path) -> Artifact:
    import hashlib

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(kind="trace", path=str(path), size=path.stat().st_size, sha256=digest)


def environment(seen: Observed) -> Environment:
    """This machine, with what the script's torch told of itself."""
    found = machine.environment()
    return structs.replace(
        found,
        devices=[*(Device(**device) for device in seen.devices), *found.devices],
        libraries={**found.libraries, **seen.libraries},
        knobs={**found.knobs, **seen.knobs},
    )
