"""Preparation before the first benchmark: data files, repositories, import paths, methods."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.edges.perfzero import fetching, process
from laptime.edges.perfzero import flags as methods
from laptime.edges.perfzero.flags import Filter, Flags, check_flags
from laptime.edges.perfzero.summary import Conditions
from laptime.kit.errors import ExitCode, LaptimeError, UsageError, UserCodeError
from laptime.kit.text import closest
from laptime.probes import machine
from laptime.process.program import ending
from laptime.records.environment import Device

Say = Callable[[str], None]
_ANSWER_WITHIN = 20.0
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits")


class NoMatch(LaptimeError):
    """A filter finds no method: the benchmarks that somebody counts on would be left out in silence."""

    exit_code = ExitCode.NO


def prepare(flags: Flags, *, say: Say) -> Conditions:
    """Check the flags, fetch what they name, and find the methods.
    Raises UsageError: a flag cannot be carried out. NoMatch: a filter finds nothing."""
    wanted = methods.parse(check_flags(flags).benchmark_methods)
    if not wanted:
        next = "--benchmark_methods=package.module.Class.method"
        raise UsageError("no benchmark was named", why="--benchmark_methods names them", next=next)
    wanted_repos = fetching.parse_repos(flags.git_repos or [])
    wanted_files = fetching.parse_downloads(flags.data_downloads, flags.gcs_downloads)
    fetching.require(flags.output_gcs_url or "")
    timing: dict[str, float] = {}
    with _timed(timing, "download_data"):
        for file in wanted_files:
            fetching.download(file, Path(flags.root_data_dir), say=say)
    site = Path(flags.workspace) / "site-packages"
    with _timed(timing, "checkout_repository"):
        cached = flags.use_cached_site_packages
        there = {repo.name: fetching.clone(repo, site, cached=cached) for repo in wanted_repos}
    environment = machine.environment()
    environment = structs.replace(environment, devices=[*environment.devices, *_accelerators()])
    path = python_path(flags.python_path, site)
    with _timed(timing, "find_methods"):
        chosen = methods.expand(wanted, lambda each: _matches(each, flags, path))
    return Conditions(
        flags=flags, methods=chosen, python_path=path, environment=environment, repos=there, timing=timing
    )


def python_path(text: str | None, site: Path) -> list[str]:
    """The folders of --python_path: under the workspace's site-packages, else from here.
    Raises UsageError: there is no such folder."""
    folders = []
    for word in filter(None, (word.strip() for word in (text or "").split(","))):
        place = next((place for place in (site / word, Path(word)) if place.exists()), None)
        if place is not None:
            folders.append(str(place.resolve()))
        else:
            clones = [each.name for each in site.iterdir()] if site.is_dir() else []
            near = closest(word, clones)
            raise UsageError(
                f"--python_path: there is no folder {word}",
                why=f"looked in {site.resolve()} and here",
                next=f"did you mean {near}?" if near else "--git_repos=URL   puts a clone there",
            )
    return folders


def _accelerators() -> list[Device]:
    """NVIDIA GPUs, asked as PerfZero does: of a program of the driver's, no framework and no library.

    In the driver's order; none if the program is missing or does not answer."""
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return _parse(done.stdout) if done.returncode == 0 else []


def _parse(text: str) -> list[Device]:
    """Devices from the program's lines `name, driver, MiB`; other lines are passed over."""
    devices: list[Device] = []
    for line in text.splitlines():
        model, driver, memory = ([part.strip() for part in line.split(",")] + ["", "", ""])[:3]
        if model and driver:
            size = int(memory) * 2**20 if memory.isdigit() else None
            devices.append(Device(name=f"cuda:{len(devices)}", model=model, driver=driver, memory=size))
    return devices


def _matches(pattern: Filter, flags: Flags, path: list[str]) -> list[str]:
    """Names that the filter finds. A class that cannot be imported stands as one nameless method: running
    that tells why, and does not keep the others from being run. Raises NoMatch: it has no such method."""
    answer = _public(pattern.cls, pattern.pattern, flags, path).event("names")
    if answer is None:
        return [""]
    if not answer["names"]:
        raise NoMatch(
            f"{pattern.name} matches no method",
            why=f"{pattern.cls} has none whose name matches {pattern.pattern!r} from its first letter on",
            next=f"laptime suite perfzero --list --benchmark_methods={pattern.cls}.filter:.*",
        )
    return [str(name) for name in answer["names"]]


def _public(cls: str, pattern: str, flags: Flags, path: list[str]) -> process.Ended:
    """The process that told the public methods of a class, or why it cannot be imported."""
    request: dict[str, Any] = {"do": "names", "class": cls, "pattern": pattern, "python_path": path}
    with tempfile.TemporaryDirectory(prefix="laptime-perfzero-") as folder:
        return process.run(
            request, Path(folder), python=flags.python, timeout=flags.timeout, echo=flags.debug
        )


def there(conditions: Conditions) -> list[str]:
    """The methods that would run, as `pkg.mod.Class.method`, each looked up in its class.
    Raises UserCodeError: a class cannot be imported. UsageError: it has no such method."""
    for cls in dict.fromkeys(method.cls for method in conditions.methods):
        ended = _public(cls, "", conditions.flags, conditions.python_path)
        names = ended.event("names")
        if names is None:
            raised = ended.event("raised") or {"kind": "its process", "message": ending(ended.status or 0)}
            raise UserCodeError(
                f"{cls} cannot be imported",
                why=f"{raised['kind']}: {raised['message']}",
                next="--python_path=FOLDER   makes what is in a folder importable",
            )
        for each in conditions.methods:
            if each.cls == cls and not each.method.startswith("_") and each.method not in names["names"]:
                near = closest(each.method, names["names"])
                raise UsageError(
                    f"{cls} has no method {each.method}",
                    why=f"it has {', '.join(names['names'][:6]) or 'none'}",
                    next=f"did you mean {near}?" if near else f"--benchmark_methods={cls}.filter:.* --list",
                )
    return [f"{method.cls}.{method.method}" for method in conditions.methods]


@contextmanager
def _timed(timing: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    timing[name] = time.perf_counter() - begin
