"""The process that runs one benchmark method: `python child.py REQUEST.json`.

Standard library only, and nothing of laptime: the interpreter may be that of another environment, and the
benchmark must find the machine as empty as PerfZero would leave it. What happens is told in lines of JSON,
each written at once, so that a crash loses none; the process that waits outside reads them."""

import faulthandler
import functools
import importlib
import inspect
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

FRAMEWORKS = ("tensorflow", "torch", "jax")
LONGEST = 2000  # characters of an exception's message that are kept
PROFILE_WRITTEN = 120.0  # seconds that a profile may take to be written


class Teller:
    """Appends events to a file: name, time of day, and what else there is to say."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def __call__(self, event: str, **facts: Any) -> None:
        line = json.dumps({"event": event, "unix": time.time(), **facts}, default=str)
        os.write(self._file, line.encode() + b"\n")


def figures() -> dict[str, Any]:
    """Memory of this process in bytes (resident, virtual, highest resident), and seconds used so far.

    `cpu`: on CPUs; `waited`: its threads that are alive, for a CPU; `machine`: the first line of /proc/stat,
    CPU time of the whole machine by kind. What the system does not say is left out."""
    usage: dict[str, Any] = {"cpu": time.process_time()}
    with suppress(OSError, ValueError, IndexError):
        waits = []
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:  # noqa: PTH123
                waits.append(int(file.read().split()[1]))
        usage["waited"] = sum(waits) * 1e-9
    with suppress(OSError), open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123
        usage["machine"] = file.readline()
    with suppress(OSError, ValueError), open("/proc/self/status", encoding="utf-8") as status:  # noqa: PTH123
        names = {"VmRSS": "rss", "VmSize": "vms", "VmHWM": "peak"}
        for line in status:
            name, _, value = line.partition(":")
            if name in names:
                usage[names[name]] = int(value.split()[0]) * 1024
    return usage


def reset_peak() -> None:
    """Let the highest resident set count from here on, if the system can (Linux)."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write("5")


def framework() -> dict[str, str]:
    """Name, version and build of the framework that was loaded; empty when none was."""
    for name in FRAMEWORKS:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            build = getattr(module, "__git_version__", "") or getattr(
                getattr(module, "version", None), "git_version", ""
            )
            return {"name": name, "version": str(module.__version__), "build_version": str(build or "")}
    return {}


def load(path: str) -> Any:
    """The class that `pkg.mod.Class` names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def without_empty_bounds(cls: Any) -> None:
    """Let `min_value: None` mean that there is none, as it did before TensorFlow began to raise on it."""
    for owner in cls.__mro__:
        report = vars(owner).get("report_benchmark")
        if report is None or not owner.__module__.startswith("tensorflow."):
            continue

        @functools.wraps(report)
        def tolerant(self: Any, *given: Any, _report: Any = report, **named: Any) -> Any:
            bounds = ("min_value", "max_value")
            if named.get("metrics"):
                named["metrics"] = [
                    {key: value for key, value in each.items() if key not in bounds or value is not None}
                    for each in named["metrics"]
                ]
            return _report(self, *given, **named)

        owner.report_benchmark = tolerant


def arguments(cls: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the constructor's arguments: PerfZero's three (those that it takes), and the user's own.

    `tf_benchmark` classes get the user's only. A class whose constructor takes neither the three by name nor
    `**kwargs` is built as such a one without being told."""
    keywords = dict(request["constructor"])
    if request["class_type"] == "tf_benchmark":
        return keywords
    offered = {name: request[name] for name in ("output_dir", "root_data_dir", "tpu")}
    try:
        takes = inspect.signature(cls.__init__).parameters.values()
    except (TypeError, ValueError):
        return {**offered, **keywords}
    if cls.__init__ is not object.__init__ and any(taken.kind is taken.VAR_KEYWORD for taken in takes):
        return {**offered, **keywords}
    named = {taken.name for taken in takes if taken.kind in (taken.POSITIONAL_OR_KEYWORD, taken.KEYWORD_ONLY)}
    return {**{name: value for name, value in offered.items() if name in named}, **keywords}


class Profiler:
    """TensorFlow's profiler in windows of seconds after now, in a thread; nothing without windows.

    A window that begins at second 0 is open when the constructor returns: a short method is not missed."""

    def __init__(self, windows: list[list[float]], folder: str, tell: Teller) -> None:
        self._windows, self._folder, self._tell = windows, folder, tell
        self._over = threading.Event()
        self._opened = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="laptime-profiler", daemon=True)
        if windows:
            self._thread.start()
            if windows[0][0] <= 0:
                self._opened.wait(PROFILE_WRITTEN)

    def stop(self) -> None:
        """The method is over: an open window ends here, and what it recorded is written."""
        self._over.set()
        if self._windows:
            self._thread.join(PROFILE_WRITTEN)

    def _work(self) -> None:
        try:
            profiler = importlib.import_module("tensorflow").profiler.experimental
            for begin, end in self._windows:
                if self._until(begin):
                    self._tell("profiler_late", begin=begin)
                    return
                profiler.start(self._folder)
                self._opened.set()
                self._until(end)
                profiler.stop()
                self._tell("profiled", begin=begin, end=time.monotonic() - self._began)
        except Exception as error:
            self._tell("profiler_failed", message=f"{type(error).__name__}: {error}"[:LONGEST])
        finally:
            self._opened.set()

    def _until(self, second: float) -> bool:
        """Wait for a second after the method began; True when the method is over before."""
        return self._over.wait(max(0.0, self._began + second - time.monotonic()))


def run(request: dict[str, Any], tell: Teller) -> None:
    """Import the class, build it, call the method; each step is told."""
    phase, begin = "import", time.perf_counter()

    def took() -> float:
        return time.perf_counter() - begin

    try:
        cls = load(request["class"])
        tell("imported", seconds=took(), reports_as=f"{cls.__name__}.{request['method']}")
        without_empty_bounds(cls)
        phase, begin = "constructor", time.perf_counter()
        instance = cls(**arguments(cls, request))
        tell("constructed", seconds=took(), framework=framework())
        phase = "lookup"
        method = getattr(instance, request["method"])
        reset_peak()
        phase = "method"
        tell("started", clock=time.perf_counter(), **figures())
        profiler = Profiler(request["profile"], request["profile_folder"], tell)
        begin = time.perf_counter()
        try:
            method()
        finally:
            seconds, at_end = took(), {**figures(), "clock": time.perf_counter(), "unix": time.time()}
            profiler.stop()
        tell("ended", seconds=seconds, framework=framework(), **at_end)
    except BaseException as error:  # SystemExit and KeyboardInterrupt out of a benchmark are failures, too
        tell(
            "raised",
            phase=phase,
            seconds=took(),
            kind=type(error).__name__,
            message=str(error)[:LONGEST],
            framework=framework(),
            **({"method": request["method"], "methods": public(cls, "")} if phase == "lookup" else {}),
            **figures(),
            clock=time.perf_counter(),
        )
        traceback.print_exc()


def public(cls: Any, pattern: str) -> list[str]:
    """The public methods of a class whose names match a pattern from their first letter on."""
    return [
        name
        for name in dir(cls)
        if not name.startswith("_") and re.match(pattern, name) and callable(getattr(cls, name))
    ]


def names(request: dict[str, Any], tell: Teller) -> None:
    """Tell the public methods of a class whose names match a pattern."""
    tell("names", names=public(load(request["class"]), request["pattern"]))


def upload(request: dict[str, Any], tell: Teller) -> None:
    """Hand the summary to the function that was named."""
    with open(request["summary"], encoding="utf-8") as file:  # noqa: PTH123
        load(request["function"])(json.load(file))
    tell("uploaded")


def main() -> None:
    """Do what the request says, and leave without taking a framework apart object by object."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
        request = json.load(file)
    # This file's own folder is no place for a benchmark's imports; the paths asked for come last, as PerfZero
    # has them, behind what is installed.
    own_folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [os.getcwd(), *(path for path in sys.path if path != own_folder), *request["python_path"]]  # noqa: PTH109
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):  # asked before a hung process is ended: the log then says where it hung
        faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    tell = Teller(request["events"])
    try:
        {"run": run, "names": names, "upload": upload}[request["do"]](request, tell)
    except BaseException as error:
        tell("raised", phase="import", kind=type(error).__name__, message=str(error)[:LONGEST])
        traceback.print_exc()
    tell("done")
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
