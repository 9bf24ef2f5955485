"""All of it: every method, trial after trial, each in a process of its own; written first, sent after."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from laptime.analysis import budgets
from laptime.edges.perfzero import fetching, process, report, schema, summary, verdict
from laptime.edges.perfzero.flags import Flags, Method, constructor_arguments, tpu, windows
from laptime.edges.perfzero.prepare import Say, prepare
from laptime.edges.perfzero.summary import NAME, Conditions
from laptime.edges.perfzero.verdict import Outcome
from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.process.program import ending
from laptime.records import event as events
from laptime.records.case import Case
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.store.folder import write_whole
from laptime.store.live_run import LiveRun

UPLOADED_WITHIN = 600.0


def perfzero(flags: Flags, emit: events.Listener, *, say: Say) -> tuple[Run, list[LaptimeError]]:
    """Run what the flags ask for; the run, and what could not be sent where it should.
    Raises UsageError: a flag cannot be carried out; nothing was run. NoMatch: a filter finds nothing."""
    return _PerfZeroRun(prepare(flags, say=say), LiveRun("suite", emit)).run()


def exit_code(run: Run) -> ExitCode:
    """Interrupted; a method that failed; a bound that was broken; what cannot be decided; or fine."""
    told = [case.details.perfzero["laptime"]["verdict"] for case in run.cases if case.details.perfzero]
    states = {state for each in told for state in each["states"]}
    bounds = {verdict.word for verdict in run.verdicts}
    if run.status == "interrupted":
        return ExitCode.INTERRUPTED
    if states - verdict.MEASURED - verdict.IMPOSSIBLE:
        return ExitCode.USER_CODE
    if "broken" in bounds:
        return ExitCode.NO
    return ExitCode.UNDECIDED if states & verdict.IMPOSSIBLE or "undecided" in bounds else ExitCode.OK


class _PerfZeroRun:
    """One run of `laptime suite perfzero`."""

    def __init__(self, conditions: Conditions, live: LiveRun) -> None:
        self._conditions, self._live = conditions, live
        self._flags: Flags = conditions.flags
        self._trials: dict[Method, list[Outcome]] = {method: [] for method in conditions.methods}
        self._faults: list[LaptimeError] = []

    def run(self) -> tuple[Run, list[LaptimeError]]:
        """Run every method once, then all again, as often as requested: slow drifts hit all of them."""
        self._live.start(
            name=self._flags.name,
            subjects=[Subject(target=method.name, source="perfzero") for method in self._conditions.methods],
            environment=self._conditions.environment,
            plan={name: Setting(value=value) for name, value in structs.asdict(self._flags).items()},
        )
        status = "complete"
        turns = [m for _ in range(self._flags.benchmark_num_trials) for m in self._conditions.methods]
        try:
            for index, method in enumerate(turns):
                self._turn(method, index, len(turns))
        except KeyboardInterrupt:
            status = "interrupted"
        # Whether the means over the trials keep the bounds; if they do not, a finding, too.
        verdicts = [v for method, trials in self._trials.items() for v in summary.verdicts(method, trials)]
        if verdicts:
            self._live(events.VerdictsReached(verdicts))
        for each in verdicts:
            if each.word != "kept":
                self._live(events.FindingAdded(budgets.finding(each)))
        return self._live.finish(status), self._faults

    def _turn(self, method: Method, index: int, turns: int) -> None:
        trials = self._trials[method]
        if not trials:
            self._live(
                events.CaseAdded(Case(key=method.name, target=method.name, axes={}, status="interrupted"))
            )
        remaining = self._live.seconds / index * (turns - index) if index else 0.0
        name = f"{method.cls.rpartition('.')[2]}.{method.method}"

        def tick(seconds: float) -> None:
            left = max(0.0, remaining - seconds)
            self._live.say(f"{name}, {seconds:.0f} s", index / turns, left)

        tick(0.0)
        folder = self._folder(method, len(trials) + 1, only=turns == 1)
        ended = self._process(method, folder, tick)
        trials.append(verdict.judge(ended, *report.read(folder)))
        if versions := summary.framework_version(ended):
            # Known only now: without it, runs of two versions would share a history.
            self._live(events.EnvironmentChanged(self._live.run().environment.extend(libraries=versions)))
        self._live(events.CaseChanged(self._write(method, folder)))
        self._faults += send(folder, self._conditions)

    def _process(self, method: Method, folder: Path, tick: Callable[[float], None]) -> process.Ended:
        flags, place = self._flags, str(folder.resolve())
        scratch = flags.scratch_gcs_url
        request: dict[str, Any] = {
            "do": "run",
            "class": method.cls,
            "method": method.method,
            "python_path": self._conditions.python_path,
            "class_type": flags.benchmark_class_type,
            "constructor": constructor_arguments(flags),
            "output_dir": _scratch(scratch, folder.name) if scratch else place,
            "root_data_dir": flags.root_data_dir,
            "tpu": tpu(flags),
            "profile": windows(flags),
            "profile_folder": f"{place}/profiler_data",
        }
        environ = {schema.REPORT_VARIABLE: f"{place}/{schema.REPORT_PREFIX}"}
        if key := flags.gcloud_key_file_url:
            environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(Path(key.removeprefix("file://")).resolve())
        if scratch and not fetching.is_url(scratch):
            Path(request["output_dir"]).mkdir(parents=True, exist_ok=True)
        return process.run(
            request,
            folder,
            python=flags.python,
            timeout=flags.timeout,
            environ=environ,
            echo=flags.debug,
            tick=tick,
        )

    def _write(self, method: Method, folder: Path) -> Case:
        """Put the summary and the curve on disk; the case as it stands."""
        trials = self._trials[method]
        checks = verdict.checks(trials, virtual=bool(self._conditions.environment.virtual))
        document = summary.summary(method, folder, trials, self._conditions, checks)
        points = summary.curve(trials[-1].ended)
        lines = b"".join(msgspec.json.encode(point) + b"\n" for point in points)
        try:
            write_whole(folder / summary.NAME, schema.text(document).encode())
            write_whole(folder / summary.CURVE, lines)
        except OSError as error:
            why = error.strerror or str(error)
            fault = UsageError(
                f"the results could not be written to {folder}",
                why=why,
                next="the run is stored: laptime show last",
            )
            self._faults.append(fault)
        return summary.case(method, trials, folder, document, points, checks)

    def _folder(self, method: Method, trial: int, *, only: bool) -> Path:
        """A new folder for one trial of one method; one that exists is never written into.
        Raises UsageError: it cannot be made."""
        stem = self._flags.execution_id or f"{datetime.now(UTC):%Y-%m-%d-%H-%M-%S-%f}"
        if not only:
            stem = f"{stem}-{method.cls.rpartition('.')[2]}.{method.method}-{trial}"
        root = Path(self._flags.workspace) / "output"
        number = 1
        while True:
            folder = root / (stem[:200] + (f"-again{number}" if number > 1 else ""))
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            except OSError as error:
                why, next = error.strerror or str(error), "--workspace=ANOTHER/FOLDER"
                raise UsageError(f"{folder} cannot be made", why=why, next=next) from error
            else:
                return folder


def _scratch(where: str, name: str) -> str:
    """Return the output_dir of a class: a folder under a URL, or a path on this machine, `file://` or not."""
    if fetching.is_url(where):
        return f"{where.rstrip('/')}/{name}"
    return str(fetching.local(where).resolve() / name)


def send(folder: Path, conditions: Conditions) -> list[LaptimeError]:
    """Hand a folder and the summary in it to all that the flags name; what went wrong.

    A failure takes no result away and stops no benchmark. Each function is called in a process of its own,
    which may import what it likes, and may crash."""
    flags = conditions.flags
    functions = [name.strip() for name in (flags.result_upload_methods or "").split(",") if name.strip()]
    called = [_call(name, folder, conditions) for name in functions]
    faults = [fault for fault in called if fault is not None]
    if flags.output_gcs_url:
        try:
            fetching.copy_folder(folder, flags.output_gcs_url)
        except LaptimeError as error:
            faults.append(error)
    return faults


def _call(function: str, folder: Path, conditions: Conditions) -> LaptimeError | None:
    flags, written = conditions.flags, folder / NAME
    request = {
        "do": "upload",
        "function": function,
        "summary": str(written.resolve()),
        "python_path": conditions.python_path,
    }
    log = f"upload-{function[-100:]}.log"
    limit = UPLOADED_WITHIN
    ended = process.run(request, folder, python=flags.python, timeout=limit, echo=flags.debug, log=log)
    if ended.event("uploaded") is not None:
        return None
    why = f"no answer after {limit:g} s" if ended.hung else f"its process {ending(ended.status or 0)}"
    if raised := ended.event("raised"):
        why = f"{raised['kind']}: {raised['message']}"
    return UsageError(
        f"{function} could not upload {written}",
        why=why,
        next=f"nothing is lost: the summary is there; {folder / log} has the details",
    )
