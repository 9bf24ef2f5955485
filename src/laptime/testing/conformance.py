"""Does an extension keep its contract? One function a room; silent, or raises `Broken` with a sentence.

    from laptime.testing import check_backend

    def test_my_backend_keeps_the_contract() -> None:
        check_backend("mylib", target="mylib:tiny")

The contracts are written in the rooms themselves: `measure/protocol.py` for backends, `targets/__init__.py`,
`probes/__init__.py`, `measure/checks/__init__.py`, `reports/__init__.py`.

Example runs and profiles ship with laptime, and reports, checks and rules are tried on them: `runs`,
`profiles`. `tests/fixtures` makes them; `tests/golden/test_examples.py` fails when a file is stale, and
rewrites it."""

import gzip
import inspect
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from laptime.edges.exports import Point, Record, opened
from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError, TargetError, UsageError
from laptime.kit.registry import load, names
from laptime.probes import TimedBlock
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.records.series import Metric, Regime
from laptime.store import encoding
from laptime.targets import Recipe, parse

KINDS = ("bench", "profile", "tune", "other")
"""Kinds of example runs: a file `examples/KIND.json.gz` each, a JSON object of runs by name."""


def runs(kinds: Iterable[str] = KINDS) -> dict[str, Run]:
    """Example runs by name: bench runs of every trust, profiles, tuning sessions, trace, check, suite."""
    return {name: run for kind in kinds for name, run in _decode(kind, Run).items()}


def profiles() -> dict[str, Profile]:
    """A profile for each of laptime's rules that makes it speak, and two on which every rule is silent."""
    return dict(_decode("diagnosed", Profile))


@cache
def _decode(name: str, record: Any) -> dict[str, Any]:
    packed = files("laptime.testing").joinpath("examples", f"{name}.json.gz").read_bytes()
    examples: dict[str, Any] = encoding.decode(gzip.decompress(packed), dict[str, record])
    return examples


ODD_TEXTS = (
    "",
    " ",
    ":",
    "::",
    "a:",
    ":b",
    "no such thing",
    "../../etc/passwd",
    "x\n\0y",
    "ä:ö",
    "a" * 10_000,
)
UNITS = frozenset({"s", "B", "J", "W", "K", "Hz", "FLOP", "MAC", "FLOP/s", "B/s", "1/s", "1", "ratio"})
"""Units of stored values: SI base units, never milliseconds or gigabytes."""


class Broken(AssertionError):
    """An extension does not keep its contract."""


def need(condition: object, sentence: str) -> None:
    """Raise `Broken` with this sentence unless the condition holds."""
    if not condition:
        raise Broken(sentence)


def documented(room: str, name: str) -> ModuleType:
    """The module of an extension, which says in its docstring what it is for."""
    module = load(room, name)
    need((module.__doc__ or "").strip(), f"{room}/{name} has no docstring: its first line is shown to users")
    return module


def takes(function: Any, *parameters: str) -> None:
    """A function can be called with exactly these positional parameters."""
    need(callable(function), f"{function!r} is not callable")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        raise Broken(f"{function.__qualname__} must take ({', '.join(parameters)}): {error}") from error


def plain(value: object, what: str) -> None:
    """A value can be written as JSON: it goes through a pipe and into a file."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise Broken(f"{what} cannot be written as JSON: {error}") from error


def check_target(name: str) -> None:
    """A kind of target: FORM, matches, resolve, names."""
    module = documented("targets", name)
    need(isinstance(module.FORM, str) and module.FORM, f"targets/{name}: FORM says how it is written")
    takes(module.matches, "text")
    takes(module.resolve, "text")
    takes(module.names)
    for text in ODD_TEXTS:
        if module.matches(text):
            try:
                recipe = module.resolve(text)
            except LaptimeError:
                continue
            need(isinstance(recipe, Recipe), f"targets/{name}: resolve({text!r}) gave no Recipe")
    targets = module.names()
    for text in [*targets[:3], *targets[-1:]]:
        need(module.matches(text), f"targets/{name} knows {text!r} but does not match it")
        others = [kind for kind in names("targets") if kind != name and load("targets", kind).matches(text)]
        need(not others, f"{text!r} is matched by {name} and by {', '.join(others)}")
        recipe, who = parse(text), f"targets/{name}: the recipe of {text!r}"
        need(recipe.target == text, f"{who} says target {recipe.target!r}")
        need(recipe.kind == name, f"{who} says kind {recipe.kind!r}")
        need(recipe.source, f"{who} does not say where it comes from")
        there = recipe.backend in names("backends")
        need(there, f"targets/{name}: {text!r} wants backend {recipe.backend!r}, which is not there")


def check_probe(name: str) -> None:
    """An instrument: metrics say what they mean and when they lie, `watch` and `open_meters` do as agreed."""
    module = documented("probes", name)
    for metric in getattr(module, "METRICS", ()):
        who = f"probes/{name}: {metric.tag}"
        need(isinstance(metric, Metric), f"probes/{name}: METRICS holds {metric!r}")
        need(metric.unit in UNITS, f"{who} is in {metric.unit!r}; stored units are {' '.join(sorted(UNITS))}")
        need(metric.title and metric.meaning, f"{who} does not say what it is")
        need(metric.lies_when, f"{who} does not say when it lies")
        for other in names("probes"):
            taken = {theirs.tag for theirs in getattr(load("probes", other), "METRICS", ())}
            need(other == name or metric.tag not in taken, f"{who} is made by probes/{other}, too")
    if hasattr(module, "watch"):
        watch = module.watch("cpu", SystemClock)
        for seconds in ([0.1, 0.2, 0.1], []) if watch is not None else ():
            watch.begin()
            start = [SystemClock.now()] * len(seconds)
            block = TimedBlock(Regime.ISOLATED, start, seconds, [0] * len(seconds))
            for series in watch.end(block):
                tag = series.metric.tag
                need(series.metric in module.METRICS, f"probes/{name}: {tag} is not in METRICS")
                need(
                    len(series.samples) in (len(seconds), len(series.at)),
                    f"probes/{name}: {tag} needs as many samples as the block, or times of its own",
                )
    if hasattr(module, "open_meters"):
        meters, absence = module.open_meters()
        need(meters or absence, f"probes/{name}: no meter, and open_meters() does not say why")


def check_check(name: str) -> None:
    """A validity check: pure, on records only; one sentence, and a next step when it is not content."""
    module = documented("checks", name)
    takes(module.check, "case", "environment", "plan")
    for story, run in runs(["bench"]).items():
        bare = [
            msgspec.structs.replace(case, series=[], checks=[], details=Details(), artifacts=[])
            for case in run.cases
        ]
        for case in [*run.cases, *bare]:
            before = msgspec.json.encode(case)
            answer = module.check(case, run.environment, run.plan)
            need(
                msgspec.json.encode(case) == before, f"checks/{name} changed the case it looked at ({story})"
            )
            need(
                answer == module.check(case, run.environment, run.plan),
                f"checks/{name} gives two answers to one question ({story})",
            )
            if answer is not None:
                _check_answer(name, answer)


def _check_answer(name: str, answer: object) -> None:
    need(isinstance(answer, Check), f"checks/{name} answered {answer!r}: a Check or None is wanted")
    assert isinstance(answer, Check)
    need(answer.name == name, f"checks/{name} calls itself {answer.name!r}")
    need(answer.outcome in ("ok", "note", "warn", "fail"), f"checks/{name}: no outcome {answer.outcome!r}")
    need(answer.sentence.strip(), f"checks/{name}: {answer.outcome} without a sentence")
    if answer.outcome in ("warn", "fail"):
        need(answer.next.strip(), f"checks/{name}: {answer.outcome} without what to do next")


def check_command(name: str, *, room: str = "commands") -> None:
    """A command of the command line: a click command named like its file, every option explained. room:
    `suite_commands` for a word after `laptime suite`."""
    import click

    command = documented(room, name).command
    need(isinstance(command, click.Command), f"{room}/{name}: `command` is not a click command")
    need(command.name == name.replace("_", "-"), f"{room}/{name}: the command calls itself {command.name!r}")
    need(command.help, f"{room}/{name} has no help")
    for option in command.params:
        if isinstance(option, click.Option):
            need(option.help, f"{room}/{name}: {'/'.join(option.opts)} has no help")
    with click.Context(command, info_name=f"laptime {name}") as context:
        need(command.get_help(context).strip(), f"{room}/{name} --help shows nothing")


def check_report(name: str) -> None:
    """A report: renders a run of any kind or refuses it by name, the same way every time, and harmlessly."""
    module = documented("reports", name)
    need(name == module.NAME, f"reports/{name} calls itself {module.NAME!r}")
    need(
        module.SUFFIXES and all(suffix.startswith(".") for suffix in module.SUFFIXES),
        f"reports/{name}: SUFFIXES are what -o FILE is recognised by, with their dots",
    )
    for other in names("reports"):
        shared = set(module.SUFFIXES) & set(load("reports", other).SUFFIXES) if other != name else set()
        need(not shared, f"reports/{name} and reports/{other} both want {', '.join(sorted(shared))}")
    takes(module.render, "run")
    stories = runs()
    stories["no cases"] = _empty(stories["trusted"])
    rendered = {story: _render(name, module, story, run) for story, run in stories.items()}
    _check_hostile(name, module)
    for story, page in rendered.items():
        if page is not None and story != "no cases":
            hollow = _render(name, module, f"{story}, emptied", _empty(stories[story]))
            need(hollow != page, f"reports/{name} says nothing about: {story}; it must refuse such a run")


def _empty(run: Run) -> Run:
    """The run without anything that was measured."""
    return msgspec.structs.replace(
        run, cases=[], comparisons=[], findings=[], checks=[], verdicts=[], profile=None, tuning=None
    )


def _render(name: str, module: ModuleType, story: str, run: Run) -> str | bytes | None:
    """The report of a run; None if the report refuses it in three lines that name the report."""
    before = msgspec.json.encode(run)
    try:
        page: str | bytes = module.render(run)
    except UsageError as error:
        need(
            name in error.what and error.why and error.next,
            f"reports/{name} refuses {story} without saying which report, why and what to type: {error}",
        )
        return None
    need(isinstance(page, str | bytes) and page, f"reports/{name} renders nothing for: {story}")
    need(module.render(run) == page, f"reports/{name} renders one run in two ways: {story}")
    need(msgspec.json.encode(run) == before, f"reports/{name} changed the run: {story}")
    return page


def _check_hostile(name: str, module: ModuleType) -> None:
    """Names come from users and from files of strangers: they must stay text."""
    tag, escape = "<img src=x onerror=alert(1)>", "\x1b[2J"
    trusted = runs(["bench"])["trusted"]
    evil = msgspec.structs.replace(trusted.cases[0], key=tag + escape, target=tag + escape)
    run = msgspec.structs.replace(trusted, name=tag + escape, cases=[evil], comparisons=[], findings=[])
    page = _render(name, module, "a hostile name", run) or ""
    text = page if isinstance(page, str) else page.decode("utf-8", "replace")
    need(escape not in text, f"reports/{name} lets escape sequences of a name through to the terminal")
    if any(suffix in (".html", ".htm", ".svg", ".xml") for suffix in module.SUFFIXES):
        need(tag not in text, f"reports/{name} lets tags in a name through to the browser")


def raises_target_error(open_variant: Any, variant: object) -> None:
    """Opening this variant is refused in laptime's own words."""
    try:
        open_variant(variant)
    except LaptimeError as error:
        need(error.what, "an error must say what happened")
        if isinstance(error, TargetError):
            need(error.why or error.next, f"{error.what!r} says neither why nor what to type next")
        return
    except Exception as error:
        raise Broken(f"open() let {type(error).__name__} through: a LaptimeError is wanted") from error
    raise Broken(f"open() accepted {variant!r}")


def check_export(name: str, folder: Path) -> str:
    """Write two cases and three steps below an empty folder; what `close` said.
    Raises Unavailable: its library is not installed."""
    module = documented("exports", name)
    need(isinstance(getattr(module, "PLACE", None), str) and module.PLACE, f"exports/{name} has no PLACE")
    need("://" not in module.PLACE, f"exports/{name} writes to an address unasked")
    takes(module.open, "place", "title")
    export = opened(name, str(folder), title="a run: 1/2")
    for key, step in (("a/batch=1", 0), ("b/batch=8", 0), ("b/batch=8", 1)):
        points = [
            Point("latency/isolated/median", 0.25 + step, "s", "latency, median"),
            Point("flops", 2e9, "FLOP"),
        ]
        export.write(Record(key, {"target": key[0], "batch": key[-1]}, points, step))
    said = export.close()
    need(said and "\n" not in said, f"exports/{name}: close() must say in one line where the numbers are")
    need(any(path.is_file() for path in folder.rglob("*")), f"exports/{name} left no file in its place")
    return said
