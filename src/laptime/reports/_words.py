"""The words of a report for where, what and how sure, written once: terminal, Markdown and page agree."""

import re
import shlex
from typing import Any, Literal

from laptime.kit.text import count, some
from laptime.kit.units import percent as percent
from laptime.kit.units import show
from laptime.records.case import Axis, Case
from laptime.records.run import Run
from laptime.records.series import Regime

REGIMES: dict[str, str] = {regime.value: regime.meaning for regime in Regime}
TONES: dict[str, Literal["trusted", "noisy", "invalid"]] = {
    **dict.fromkeys(("trusted", "kept", "faster", "smaller", "better", "cheaper"), "trusted"),
    **dict.fromkeys(("noisy", "undecided", "unstable", "warn", "warning"), "noisy"),
    **dict.fromkeys(("invalid", "broken", "fail", "failed", "skipped", "interrupted"), "invalid"),
    **dict.fromkeys(("slower", "larger", "worse", "dearer", "problem"), "invalid"),
}
"""Words of verdicts, limits, checks and races, by what they come to: terminal and page colour them alike."""
_ABSENT = {
    "compile": "no",
    "train": "no",
    "channels_last": "no",
    "threads": "default",
    "backend": "torch",
    "again": "1",
    "instances": "1",
}
_PHRASES = {
    **dict.fromkeys(("dtype", "device", "backend"), "{}"),
    "compile": "compiled ({})",
    "train": "training steps ({})",
    "again": "copy {}",
}
"""How an axis and its value read in a sentence, if it is not `NAME VALUE`."""
_WITHOUT = {"compile": "not compiled", "channels_last": "not channels last", "train": "inference"}
_WITHOUT |= {"again": "copy 1", "instances": "1 instance", "backend": "torch"}
"""The same of an axis that a case does not have."""
_ABSOLUTE = re.compile(
    r"(?<![\w./~:-])(?:~|[A-Za-z]:\\|/)[^\s:;,'\"()\[\]{}<>|`*]*[/\\]([^\s:;,'\"()\[\]{}<>|`*/\\]+)"
)


def printable(text: object) -> str:
    """One line without control characters: a name cannot move the cursor or turn the text around."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def without_paths(text: str) -> str:
    """The text with absolute paths cut down to the file's own name: `…/model.py`."""
    return _ABSOLUTE.sub(r"…/\1", text)


def plain(text: object) -> str:
    """Words of strangers on one line, without control characters and folders of this machine."""
    shown = str(text)
    if not shown.isprintable():
        shown = printable(shown)
    return without_paths(shown) if "/" in shown or "\\" in shown else shown


def axis_value(name: str, value: Axis | None) -> str:
    """An axis value as a table cell; `-` or the default's name if the case has none."""
    if value is None:
        return _ABSENT.get(name, "-")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(value)


def axis_phrase(name: str, value: Axis) -> str:
    """An axis value as it reads in a sentence: `batch 8`, `2 threads`, `compiled (default)`."""
    if name in _PHRASES:
        return _PHRASES[name].format(printable(value))
    if name in ("threads", "instances") and isinstance(value, int):
        return count(value, name[:-1])
    called = printable(name).replace("_", " ")
    if isinstance(value, bool):
        return called if value else f"no {called}"
    return f"{called} {printable(value)}"


def varying(run: Run) -> list[str]:
    """Names of the axes that differ between cases, in the order in which they first appear."""
    names = dict.fromkeys(name for case in run.cases for name in case.axes)
    return [name for name in names if len({str(case.axes.get(name)) for case in run.cases}) > 1]


def label(case: Case, run: Run, *, target: bool = True) -> str:
    """The shortest words that tell a case from the others of its run."""
    several = len({case.target for case in run.cases}) > 1
    parts = [printable(case.target)] if target and (several or len(run.cases) == 1) else []
    parts += variant(case, run)
    return ", ".join(parts) or printable(case.target)


def variant(case: Case, run: Run, *, batch: bool = True) -> list[str]:
    """A phrase for every axis that varies in the run; axes at their default have a phrase, too."""
    names = [name for name in varying(run) if batch or name != "batch"]
    return [_phrase(name, case.axes.get(name)) for name in names if name in case.axes or name in _ABSENT]


def variant_name(case: Case, run: Run) -> str:
    """The words that tell the variant of a case from the others, whatever its batch size."""
    several = len({case.target for case in run.cases}) > 1
    return ", ".join([printable(case.target)] * several + variant(case, run, batch=False))


def apart(candidate: Case, baseline: Case, run: Run) -> tuple[str, str, str]:
    """Return what only each of two cases has, and what varies in the run but is the same for both."""
    ours, theirs, shared = [], [], []
    if candidate.target != baseline.target:
        ours.append(printable(candidate.target))
        theirs.append(printable(baseline.target))
    elif len({case.target for case in run.cases}) > 1:
        shared.append(printable(candidate.target))
    for name in varying(run):
        left, right = candidate.axes.get(name), baseline.axes.get(name)
        if left == right and left is not None:
            shared.append(axis_phrase(name, left))
        elif left != right:
            ours.append(_phrase(name, left))
            theirs.append(_phrase(name, right))
    return ", ".join(ours) or "the second", ", ".join(theirs) or "the first", ", ".join(shared)


def _phrase(name: str, value: Axis | None) -> str:
    if value is not None:
        return axis_phrase(name, value)
    return _WITHOUT.get(name) or f"{_ABSENT.get(name, 'no')} {printable(name).replace('_', ' ')}"


def name_held(run: Run) -> str:
    """The axes that all cases share: what a table does not repeat in each row."""
    if not run.cases:
        return ""
    different = set(varying(run))
    axes = run.cases[0].axes
    return ", ".join(axis_phrase(name, value) for name, value in axes.items() if name not in different)


def title(run: Run) -> str:
    """Return the title of the run: its name, else its targets."""
    targets = list(dict.fromkeys(case.target for case in run.cases)) or [s.target for s in run.subjects]
    return printable(run.name) or some([printable(target) for target in targets], 3) or printable(run.verb)


def where(run: Run) -> list[str]:
    """The machine, processes, seconds: one phrase each."""
    return machine(run) + processes(run) + took(run)


def machine(run: Run) -> list[str]:
    """Device, share of the machine, library versions: one phrase each."""
    environment = run.environment
    phrases = devices(run)
    cpus = f"{environment.usable_cpus:g} of {count(environment.vcpus, 'CPU')}"
    if environment.vcpus:  # another tool's file may not say
        is_part = environment.usable_cpus != environment.vcpus
        phrases.append(cpus if is_part else count(environment.vcpus, "CPU"))
    threads = environment.knobs.get("torch.num_threads", environment.knobs.get("threads"))
    if isinstance(threads, int) and not any("threads" in case.axes for case in run.cases):
        phrases.append(count(threads, "thread"))
    return phrases + libraries(run)


def devices(run: Run) -> list[str]:
    """Each device that a case used, with the vendor's name: `cuda:0 (NVIDIA H200)`."""
    models = {device.name: device.model for device in run.environment.devices} | {"cpu": run.environment.cpu}
    used = dict.fromkeys(str(case.axes.get("device", "cpu")) for case in run.cases) or {"cpu": None}
    return [printable(f"{name} ({models[name]})" if models.get(name) else name) for name in used]


def libraries(run: Run) -> list[str]:
    """The versions a reader asks for first: the framework's, CUDA's on a GPU, Python's."""
    versions = run.environment.libraries
    wanted = [str(case.axes.get("backend", "torch")) for case in run.cases] or ["torch"]
    if any(str(case.axes.get("device", "")).startswith("cuda") for case in run.cases):
        wanted.append("cuda")
    phrases = [printable(f"{name} {versions[name]}") for name in dict.fromkeys(wanted) if name in versions]
    python = run.environment.python
    return [*phrases, printable(f"Python {python}")] if python else phrases


def processes(run: Run) -> list[str]:
    """Fresh worker processes behind the best-supported case; nothing if nothing was measured."""
    numbers = [len(set(s.process)) or 1 for case in run.cases for s in case.series if s.samples]
    if not numbers:
        return []
    return [f"{max(numbers)} fresh processes" if max(numbers) > 1 else "1 process"]


def took(run: Run) -> list[str]:
    """Say how long the command took, and whether it is over."""
    end = f", {run.status}" if run.status in ("running", "interrupted") else ""
    return [f"took {show(run.seconds, 's')}{end}"] if run.seconds > 0 else []


def busy_cores(row: Any) -> str:
    """Physical cores that a number of threads keeps busy, and whether some of them share one."""
    return "-" if row.cores is None else f"{row.cores:g}" + (", shared" if row.siblings else "")


def command(run: Run) -> str:
    """The command as it was typed, without the folders of this machine."""
    return printable(without_paths(shlex.join(run.command)))
