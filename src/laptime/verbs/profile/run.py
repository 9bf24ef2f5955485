"""`profile`: where the time of a script's steps goes, the script itself unmodified.

request ── a command ── the script under hooks ── what each process observed, and its trace
                        (laptime.instrument)          │
                                                      ├── traces analysed as `laptime trace` does
                                                      └── reconciled with the untraced steps ── Run"""

import hashlib
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any, Protocol

from msgspec import structs

from laptime import rules
from laptime.instrument.messages import Observed, Settings
from laptime.kit.errors import Died, Hung, LaptimeError, Unavailable, UsageError, UserCodeError
from laptime.launch.script import Outcome, Program, execute, resolve
from laptime.probes import machine
from laptime.process.program import ending
from laptime.records.case import Artifact, Case, Failure
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.environment import Device, Environment
from laptime.records.event import CaseChanged, ChecksMade, FindingAdded, Listener, ProfileMade, ignore
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.store import folder as store
from laptime.store.live_run import LiveRun
from laptime.verbs import trace
from laptime.verbs.profile import reconcile
from laptime.verbs.profile.request import OF_TARGETS, ProfileRequest
from laptime.verbs.trace import beside_ceilings

_PLANNED = ("steps", "warmup", "wait", "repeat", "step_by", "stack", "memory", "timeout")


def profile(request: ProfileRequest, emit: Listener = ignore) -> Run:
    """Run the script until its steps are observed, and say where their time goes. The run. Its one case has
    the untraced steps; `status` is failed if the script failed, interrupted after Ctrl-C: what was
    measured until then is in it. emit: hears every event, the first one when the script has ended.
    Raises UsageError: there is no such script, an option is impossible, or no step was found in it.
    UserCodeError: it failed before a step was measured."""
    live = LiveRun("profile", emit)
    asked = {key: getattr(request, key) for key in OF_TARGETS}
    program = resolve(
        request.program,
        request.arguments,
        is_module=request.module,
        python=request.python,
        target_loop=[f"--{key}={value}" for key, value in asked.items() if value is not None],
    )
    request.check(program)
    with tempfile.TemporaryDirectory(prefix="laptime-profile-") as folder:
        outcome = execute(
            program,
            settings=settings(request, folder),
            timeout=request.timeout,
            output_to_stderr=request.output_to_stderr,
        )
        if not any(process.source for process in outcome.observed):
            raise failure_of(program, outcome) or no_step(program, outcome)
        return analyse(live, request, program, outcome, Path(folder))


def analyse(live: LiveRun, request: ProfileRequest, program: Program, outcome: Outcome, folder: Path) -> Run:
    """The run of a script that had steps; its traces are copied from `folder` to where they stay."""
    traces, problems = _keep_traces(request, live.id, folder, outcome.observed)
    observed = outcome.observed[0]
    failure = failure_of(program, outcome)
    where = environment(observed)
    origins = request.origins
    plan = {
        name: Setting(value=getattr(request, name), origin=origins.get(name, "default")) for name in _PLANNED
    }
    live.start(name=request.name, subjects=[program.subject], environment=where, plan=plan)
    live(CaseChanged(_case(program, observed, failure, outcome, traces)))
    unread = "the trace was not read to its end"  # what holds of a run that is interrupted meanwhile
    advice = [f"laptime trace {shlex.quote(str(path))}" for path in traces[:1]]
    not_yet = [Check("complete", "fail", unread, each) for each in advice]
    live(ChecksMade([*reconcile.checks(observed, None), *problems, *not_yet]))
    profile = None
    if paths := traces or _last_traces(folder, outcome.observed):
        try:
            seen = trace.analyse(paths, live)
            profile = beside_ceilings(reconcile.reconcile(seen, observed, outcome.others), where)
        except LaptimeError as error:
            sentence = f"the trace could not be read: {error.what}: {error.why}"
            next_step = "profile once more"
            problems.append(Check(name="complete", outcome="fail", sentence=sentence, next=next_step))
    checks = [*reconcile.checks(observed, profile), *problems]
    if profile is not None:
        live(ProfileMade(profile))
        checks += trace.checks(profile)
    live(ChecksMade(checks))
    for finding in reconcile.find_untraced(observed) if profile is None else rules.diagnose(profile, where):
        live(FindingAdded(finding))
    return live.finish("interrupted" if outcome.interrupted else "failed" if failure else "complete")


def settings(request: ProfileRequest, work: str) -> Settings:
    """Return how the hooked process is to observe."""
    names = ("steps", "warmup", "wait", "repeat", "step_by", "stack", "memory", "quiet", "stop")
    return Settings(folder=work, **{name: getattr(request, name) for name in names})


def _last_traces(folder: Path, observed: list[Observed]) -> list[Path]:
    """The last trace of every rank: with --repeat there are more of them, all of them kept."""
    return [folder / process.traces[-1] for process in observed if process.traces]


def _keep_traces(
    request: ProfileRequest, run_id: str, folder: Path, observed: list[Observed]
) -> tuple[list[Path], list[Check]]:
    """The last trace of every rank where it is kept, and a note where that failed."""
    names = [name for process in observed for name in process.traces]
    if not names or (request.trace is None and not request.save):
        return [], []
    try:
        home = request.trace or store.month_of(run_id, store.home()) / f"{run_id}.traces"
        home.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(folder / name, home / name)
    except OSError as error:
        sentence = f"the trace could not be kept: {error.strerror or error}"
        return [], [Check(name="kept", outcome="note", sentence=sentence, next="--trace another/FOLDER")]
    return _last_traces(home, observed), []


def _case(
    program: Program, observed: Observed, failure: LaptimeError | None, outcome: Outcome, traces: list[Path]
) -> Case:
    device = observed.devices[0]["name"].partition(":")[0] if observed.devices else "cpu"
    printed = next((ended.traceback for ended in outcome.ended if ended.traceback), "")
    failed = None
    if failure is not None:
        why, advice = failure.why, failure.next
        failed = Failure(kind="user_code", what=failure.what, why=why, next=advice, traceback=printed)
    return Case(
        key=f"{program.subject.target}/device={device}",
        target=program.subject.target,
        axes={"device": device},
        status="interrupted" if outcome.interrupted else "failed" if failure else "ok",
        failure=failed,
        series=reconcile.series(observed),
        checks=reconcile.checks(observed, None),
        artifacts=[_artifact(path) for path in traces],
        details=Details(
            steps_found_by=observed.source, seen=observed.seen, settled=observed.settled, notes=observed.notes
        ),
    )


def _artifact(path: Path) -> Artifact:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(kind="trace", path=str(path), size=path.stat().st_size, sha256=digest)


class Told(Protocol):
    """The report of a script's process about itself."""

    libraries: dict[str, str]
    knobs: dict[str, Any]
    devices: list[dict[str, Any]]


def environment(observed: Told) -> Environment:
    """This machine, with what the script's torch says of itself; its devices come first."""
    here = machine.environment().extend((), observed.libraries, observed.knobs)
    return structs.replace(here, devices=[*(Device(**device) for device in observed.devices), *here.devices])


# Why a script failed, or had no step to measure: in the words that its user reads.

_OPTIONS = {"-o", "--output", "--json", "--steps", "--warmup", "--wait", "--trace", "--no-save", "--timeout"}
"""Options of laptime that people write behind the script, if they are the script's."""


def failure_of(program: Program, outcome: Outcome) -> LaptimeError | None:
    """Return why the script has failed, None when it has not. Its traceback was shown when it happened."""
    name = program.subject.target
    if outcome.hung is not None:
        return Hung(
            f"{name} was still running after {outcome.hung:g} s",
            why="its steps are slow, or it waits for something that never comes",
            next=f"--timeout {outcome.hung * 4:g}s   or fewer steps: --wait 1 --warmup 1 --steps 2",
        )
    if outcome.interrupted or any(ended.how == "stopped" for ended in outcome.ended):
        return None
    raised = next((ended for ended in outcome.ended if ended.how == "raised"), None)
    if raised is not None:
        if raised.error.startswith("ModuleNotFoundError: No module named 'torch'"):
            return Unavailable(
                f"{name} could not import torch",
                why=f"{raised.error}, in {program.python}",
                next=f"{program.python} -m pip install torch   or --python with the interpreter that has it",
            )
        return UserCodeError(f"{name} failed", why=raised.error, next="its traceback is above")
    what = f"{name} {ending(outcome.status)}"
    if outcome.status < 0:
        again = shlex.join([program.python, "-X", "faulthandler", *program.words])
        return Died(what, why="native code crashed, or memory ran out", next=again)
    if outcome.status > 0:
        misplaced = [word for word in program.words if word.partition("=")[0] in _OPTIONS]
        if outcome.status == 2 and misplaced:  # argparse's way to refuse an option
            next_step = f"write it before the script: laptime profile {misplaced[0]}"
            return UserCodeError(what, why=f"it was given {misplaced[0]}", next=next_step)
        return UserCodeError(what, why="the script called sys.exit", next="run it without laptime first")
    return None


def no_step(program: Program, outcome: Outcome) -> LaptimeError:
    """The error of a script that ended well without a step: what was looked for, and what came."""
    name = program.subject.target
    if outcome.interrupted:
        return UserCodeError(f"{name} was interrupted before its first step", next="give it more time")
    if any(process.tensorflow for process in outcome.observed):
        return UsageError(
            f"no step was found in {name}",
            why="a step of a TensorFlow program is a call of a tf.function, as in Keras's fit and predict",
            next="compile the step: @tf.function, or model.compile(run_eagerly=False)",
        )
    if not any(process.torch for process in outcome.observed):
        return UsageError(
            f"no step was found in {name}: it does not use torch",
            why="a step is an optimizer's step, a batch of a DataLoader, or a call of an nn.Module",
            next="name the script that trains, or -m and its module",
        )
    signals = outcome.observed[0].seen
    came = ", ".join(f"{count} {kind}" for kind, count in signals.items()) or "none of them"
    return UsageError(
        f"no step was found in {name}",
        why="looked for steps of a torch optimizer, batches of a DataLoader, calls of an nn.Module, on the "
        f"main thread of the script and the ranks of torchrun; came: {came}",
        next="give it more than one batch   or   --step-by loader",
    )
