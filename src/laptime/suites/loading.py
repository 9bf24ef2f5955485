"""Suites from a TOML file, a Python file, a folder of both, or the package; and the stored runs of them."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.run import Run
from laptime.store import files as run_files
from laptime.store import folder, index
from laptime.suites import Benchmark, Suite
from laptime.targets import _code

SHIPPED = ("standard",)  # suites that come with laptime
_MARK = "laptime.suites"  # a Python file in a folder is a suite file if it mentions this; others are not run
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+=,-]*")


def load(where: str) -> list[Suite]:
    """The suites that a path, or the name of a shipped one, means; every one has benchmarks and a name.
    Raises UsageError: there is none, or a file says something that a suite cannot. UserCodeError: a file
    raised."""
    path = Path(where)
    if path.is_dir():
        suites = [suite for file in _suite_files(path) for suite in _read(file)]
        if not suites:
            why = f"no .toml file in it has a [[benchmark]], no .py file imports {_MARK}"
            raise UsageError(f"there is no suite in {where}", why=why, next="laptime suite list")
        return _apart(suites)
    if path.is_file():
        return _apart(_read(path))
    if where in SHIPPED:
        text = (files("laptime.suites") / f"{where}.toml").read_text(encoding="utf-8")
        return [_from_toml(text, f"the suite {where}", where, Path())]
    beside = closest(path.name, [file.name for file in path.parent.glob("*.toml")])
    near = closest(where, SHIPPED) or (str(path.with_name(beside)) if beside else "")
    raise UsageError(
        f"there is no suite {where!r}",
        why=f"it is not a file, a folder, or one of those that come with laptime: {', '.join(SHIPPED)}",
        next=f"did you mean {near}?" if near else "laptime suite list",
    )


def _suite_files(folder: Path) -> list[Path]:
    files = []
    for path in sorted([*folder.rglob("*.toml"), *folder.rglob("*.py")]):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        if _MARK in text if path.suffix == ".py" else re.search(r"(?m)^\s*(\[\[)?benchmark\b", text):
            files.append(path)
    return files


def _read(path: Path) -> list[Suite]:
    if path.suffix == ".py":
        module = _code.import_file(path.resolve())
        suites = [value for value in vars(module).values() if isinstance(value, Suite)]
        if not suites:
            raise UsageError(
                f"{path} does not define a suite",
                why="none of its variables is a Suite",
                next=f"from {_MARK} import Benchmark, Suite; suite = Suite(benchmark=[...])",
            )
        return [_from_object(suite, path) for suite in suites]
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error), next="laptime suite list") from error
    return [_from_toml(text, str(path), path.stem, path.parent)]


def _from_toml(text: str, place: str, name: str, folder: Path) -> Suite:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{place} is not TOML", why=str(error), next="https://toml.io shows how") from error
    refuse_unknown_keys(raw, (*Suite.__struct_fields__, "defaults"), place)
    defaults = raw.pop("defaults", {})
    refuse_unknown_keys(defaults, Benchmark.__struct_fields__, f"{place}: [defaults]")
    each = raw.get("benchmark")
    if not isinstance(each, list) or not each:
        next = '[[benchmark]]  name = "resnet18"  target = "torchvision:resnet18"'
        raise UsageError(f"{place} has no benchmark", why="a suite needs at least one benchmark", next=next)
    for one in each:
        refuse_unknown_keys(one, Benchmark.__struct_fields__, f"{place}: {_describe(one)}")
    raw["benchmark"] = [_benchmark({**defaults, **one}, place, folder) for one in each]
    suite: Suite = _convert({"name": name, **raw}, Suite, place)
    return _check(suite, place)


def _from_object(suite: Suite, path: Path) -> Suite:
    """The suite with everything checked that a file would be checked for."""
    raw = msgspec.to_builtins(suite)
    each = [_benchmark(one, str(path), path.parent) for one in raw.pop("benchmark", [])]
    made: Suite = _convert({"name": path.stem, **raw, "benchmark": each}, Suite, str(path))
    return _check(made, str(path))


def _benchmark(raw: dict[str, Any], place: str, folder: Path) -> Benchmark:
    where = f"{place}: {_describe(raw)}"
    benchmark: Benchmark = _convert(raw, Benchmark, where)
    if bool(benchmark.target) == bool(benchmark.targets):
        raise UsageError(
            f"{where} {'has both target and targets' if benchmark.target else 'has no target'}",
            why="target is measured alone, targets are compared with each other",
            next='target = "torchvision:resnet18"',
        )
    return structs.replace(
        benchmark,
        target=_locate(benchmark.target, folder) if benchmark.target else "",
        targets=[_locate(target, folder) for target in benchmark.targets],
    )


def _locate(target: str, folder: Path) -> str:
    """A target that is a file beside the suite file is found there, wherever laptime was started."""
    place, colon, name = target.partition(":")
    near = folder / place
    return f"{near}{colon}{name}" if place and "." in place and near.is_file() else target


def _check(suite: Suite, place: str) -> Suite:
    names = [suite.name, *(each.name for each in suite.benchmark)]
    for name in names:
        if not _NAME.fullmatch(name):
            why = "names have letters, digits, blanks and _ . + = , -, and begin with a letter or digit"
            raise UsageError(f"{place}: {name!r} is not a name", why=why, next='name = "resnet18 batch 8"')
    twice = next((name for name in names[1:] if names[1:].count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{place} has two benchmarks called {twice!r}",
            why="laptime finds the runs of a benchmark by its name",
            next=f'name = "{twice} again"',
        )
    return suite


def _apart(suites: list[Suite]) -> list[Suite]:
    names = [suite.name for suite in suites]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        what, why = f"two suites are called {twice!r}", "laptime finds the runs of a suite by its name"
        raise UsageError(what, why=why, next="name = ... at the top of the file")
    return suites


def _describe(raw: Any) -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    return f"benchmark {name!r}" if name else "a benchmark"


def _convert(raw: Any, kind: type[Struct], place: str) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        why, next = str(error).replace(" - at `$.", ": `"), "laptime suite list standard   shows one"
        raise UsageError(f"{place} is not valid", why=why, next=next) from error


def refuse_unknown_keys(raw: Any, known: tuple[str, ...], place: str) -> None:
    """Tell an unknown key with the nearest right one. Raises UsageError: there is one."""
    for key in raw if isinstance(raw, dict) else ():
        if key not in known:
            near = closest(key, known)
            raise UsageError(
                f"{place} has an unknown key {key!r}",
                why=f"known: {', '.join(known)}",
                next=f"did you mean {near!r}?" if near else f"take it out of {place}",
            )


class StoredSuites:
    """The complete runs of suites, by the name of suite and benchmark, newest first."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}
        for listed in index.listing()[0]:
            if listed.status == "complete" and ":" in listed.name:
                self._paths.setdefault(listed.name, []).append(listed.path)

    def runs(self, name: str) -> list[Run]:
        """The newest runs of `SUITE:BENCHMARK`, at most three: enough for every question here."""
        runs = []
        for path in self._paths.get(name, [])[:3]:
            try:
                runs.append(run_files.read(folder.home() / path))
            except UsageError:  # damaged, or removed just now; `laptime list` tells
                continue
        return runs

    def newest(self, name: str, *, before: str = "") -> Run | None:
        """The newest run of `SUITE:BENCHMARK` that is not part of the suite run with the id `before`."""
        return next((run for run in self.runs(name) if run.suite and run.suite.id != before), None)

    def latest(self, names: list[str]) -> dict[str, Run]:
        """The runs of the newest suite run among these names."""
        newest = {name: run for name in names if (run := self.newest(name)) is not None}
        last = max((run.suite.id for run in newest.values() if run.suite), default="")
        return {name: run for name, run in newest.items() if run.suite and run.suite.id == last}
