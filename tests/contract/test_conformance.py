"""The conformance checks themselves: each must say no to something that breaks its contract."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from laptime import testing
from laptime.kit import registry
from laptime.testing import Broken

Install = Callable[[str, str], None]


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Makes the extension `guest` of a room from source text."""

    def install(room: str, source: str) -> None:
        tmp_path.joinpath("guest_module.py").write_text(source, encoding="utf-8")
        point = EntryPoint("guest", "guest_module", f"laptime.{room}")
        monkeypatch.setattr(registry, "_guests", lambda asked: {"guest": point} if asked == room else {})
        monkeypatch.delitem(sys.modules, "guest_module", raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


CHECK = '''
"""Says something."""
from laptime.records.check import Check
seen = []
def check(case, environment, plan):
    seen.append(1)
    return {answer}
'''


def test_a_check_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("checks", CHECK.format(answer="Check(name='guest', outcome='warn', sentence='x', next='y')"))
    testing.check_check("guest")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("'fine'", "a Check or None is wanted"),
        ("Check(name='other', outcome='ok', sentence='x')", "calls itself 'other'"),
        ("Check(name='guest', outcome='bad', sentence='x')", "no outcome 'bad'"),
        ("Check(name='guest', outcome='ok', sentence='')", "without a sentence"),
        ("Check(name='guest', outcome='warn', sentence='x')", "without what to do next"),
        ("Check(name='guest', outcome='ok', sentence=str(len(seen)))", "two answers"),
    ],
)
def test_a_check_that_breaks_its_contract_is_found(guest: Install, answer: str, sentence: str) -> None:
    guest("checks", CHECK.format(answer=answer))
    with pytest.raises(Broken, match=sentence):
        testing.check_check("guest")


def test_an_extension_without_a_docstring_is_found(guest: Install) -> None:
    guest("checks", "def check(case, environment, plan): return None")
    with pytest.raises(Broken, match="no docstring"):
        testing.check_check("guest")


RULE = '''
"""A rule.

Lies when: never.
Source: a guess.
"""
from laptime.records.check import Finding
seen = []
def rule(profile):
    seen.append(1)
    return {answer}
'''
SAYS = "kind='trace/guest', sentence='x'"


def test_a_rule_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("rules", RULE.format(answer=f"Finding({SAYS})"))
    testing.check_rule("guest")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("'slow'", "a Finding or None is wanted"),
        ("Finding(kind='guest', sentence='x')", "is called 'guest', not 'trace/guest'"),
        ("Finding(kind='trace/guest', sentence='')", "without a sentence"),
        (f"Finding({SAYS}, severity='bad')", "no severity 'bad'"),
        (f"Finding({SAYS}, severity='advice')", "without what to change"),
        (f"Finding({SAYS}, severity='problem', change='y')", "that one step shows"),
        (f"Finding({SAYS}, gain=profile.overview.step_ns * 2e-9, evidence=dict(gain_is='y'))", "promises"),
        (f"Finding({SAYS}, gain=0.0)", "how it computes its gain"),
        (f"Finding({SAYS}, rows=['operators/nothing'])", "names the row 'operators/nothing'"),
        (f"Finding({SAYS}, evidence=dict(a=print))", "evidence cannot be written as JSON"),
        ("Finding(kind='trace/guest', sentence=str(len(seen)))", "two answers"),
    ],
)
def test_a_rule_that_breaks_its_contract_is_found(guest: Install, answer: str, sentence: str) -> None:
    guest("rules", RULE.format(answer=answer))
    with pytest.raises(Broken, match=sentence):
        testing.check_rule("guest")


@pytest.mark.parametrize("line", ["Lies when:", "Source:"])
def test_a_rule_that_does_not_say_when_it_lies_is_found(guest: Install, line: str) -> None:
    guest("rules", RULE.format(answer="None").replace(line, "Maybe"))
    with pytest.raises(Broken, match=line):
        testing.check_rule("guest")


REPORT = '''
"""A report."""
NAME = "guest"
SUFFIXES = ({suffix!r},)
def refuse(run, name, holds):
    from laptime.reports.formats import refusal
    raise refusal(run, name, holds)
def vague(run):
    from laptime.kit.errors import UsageError
    raise UsageError("not for this run")
def render(run):
    return {page}
'''
EVERY_KIND = "f'{run.id} {len(run.cases)} {run.profile is None} {run.tuning is None}'"


def test_a_report_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("reports", REPORT.format(suffix=".guest", page=EVERY_KIND))
    testing.check_report("guest")


def test_a_report_may_refuse_a_run_by_name(guest: Install) -> None:
    refusal = (
        "refuse(run, 'guest', 'timings') if run.profile or run.tuning or not run.cases else " + EVERY_KIND
    )
    guest("reports", REPORT.format(suffix=".guest", page=refusal))
    testing.check_report("guest")


@pytest.mark.parametrize(
    ("suffix", "page", "sentence"),
    [
        (".json", "run.id", "both want .json"),
        ("guest", "run.id", "with their dots"),
        (".guest", "''", "renders nothing"),
        (".guest", "run.id", "says nothing about"),
        (".guest", "f'{run.id} {len(run.cases)}'", "says nothing about: profile"),
        (".guest", "vague(run) if run.tuning else " + EVERY_KIND, "without saying which report"),
        (".guest", "str(object())+__import__('secrets').token_hex()", "in two ways"),
        (".guest", "run.id + run.cases[0].target if run.cases else 'none'", "escape sequences"),
        (".svg", "run.id + repr([c.target for c in run.cases])", "tags in a name"),
    ],
)
def test_a_report_that_breaks_its_contract_is_found(
    guest: Install, suffix: str, page: str, sentence: str
) -> None:
    guest("reports", REPORT.format(suffix=suffix, page=page))
    with pytest.raises(Broken, match=sentence):
        testing.check_report("guest")


COMMAND = '''
"""A command."""
import click
@click.command({name!r}, help={help!r})
@click.option("--deep", help={option!r})
def command(deep): ...
'''


def test_a_command_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("commands", COMMAND.format(name="guest", help="Does it.", option="How."))
    testing.check_command("guest")


@pytest.mark.parametrize(
    ("name", "text", "option", "sentence"),
    [
        ("host", "Does it.", "How.", "calls itself 'host'"),
        ("guest", "", "How.", "has no help"),
        ("guest", "Does it.", "", "--deep has no help"),
    ],
)
def test_a_command_that_breaks_its_contract_is_found(
    guest: Install, name: str, text: str, option: str, sentence: str
) -> None:
    guest("commands", COMMAND.format(name=name, help=text, option=option))
    with pytest.raises(Broken, match=sentence):
        testing.check_command("guest")


TARGET = '''
"""A kind of target."""
from laptime.kit.errors import TargetError
from laptime.targets import Program, Recipe
FORM = "guest:NAME"
def matches(text): return text.startswith({prefix!r})
def names(): return [{prefix!r} + "one"]
def resolve(text):
    return Recipe(target={target}, kind="guest", backend={backend!r}, source="here",
                  build=lambda batch: Program(call=lambda: 0.0))
'''


def test_a_target_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("targets", TARGET.format(prefix="guest:", target="text", backend="null"))
    testing.check_target("guest")


@pytest.mark.parametrize(
    ("prefix", "target", "backend", "sentence"),
    [
        ("null:", "text", "null", "is matched by guest and by null"),
        ("guest:", "text.upper()", "null", "says target 'GUEST:ONE'"),
        ("guest:", "text", "nothing", "wants backend 'nothing'"),
    ],
)
def test_a_target_that_breaks_its_contract_is_found(
    guest: Install, prefix: str, target: str, backend: str, sentence: str
) -> None:
    guest("targets", TARGET.format(prefix=prefix, target=target, backend=backend))
    with pytest.raises(Broken, match=sentence):
        testing.check_target("guest")


BACKEND = '''
"""A backend."""
from laptime.backends import null
from laptime.backends.null import available, open_object
def open(variant):
    model = null.open(variant)
    {change}
    return model
'''


def test_a_backend_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("backends", BACKEND.format(change="pass"))
    testing.check_backend("guest")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("model.facts = lambda: {'model': object()}", "facts.. cannot be written as JSON"),
        ("model.devices = lambda: []", "devices"),
        ("model.libraries = lambda: {'torch': None}", "names and versions"),
        ("model.knobs = None", "no knobs"),
        ("one = model.workload(1); model.workload = lambda batch: one", "says batch 1"),
        ("model.explain = lambda error, batch: ValueError('x')", "wanted UserCodeError"),
        ("model.check_outputs = lambda batch: {'finite': 'yes'}", "`finite` is"),
    ],
)
def test_a_backend_that_breaks_its_contract_is_found(guest: Install, change: str, sentence: str) -> None:
    guest("backends", BACKEND.format(change=change))
    with pytest.raises(Broken, match=sentence):
        testing.check_backend("guest")


def test_a_backend_that_opens_anything_is_found(guest: Install) -> None:
    source = BACKEND.format(change="pass").replace(
        "null.open(variant)", "null.open(__import__('msgspec').structs.replace(variant, target='null:noop'))"
    )
    guest("backends", source)
    with pytest.raises(Broken, match="accepted"):
        testing.check_backend("guest")


PROBE = '''
"""An instrument."""
from laptime.records.series import Metric
METRICS = (Metric(tag={tag!r}, unit={unit!r}, title="t", meaning={meaning!r}, lies_when={lies!r}),)
'''


def test_a_probe_that_keeps_its_contract_passes(guest: Install) -> None:
    guest("probes", PROBE.format(tag="new/thing", unit="s", meaning="m", lies="l"))
    testing.check_probe("guest")


@pytest.mark.parametrize(
    ("tag", "unit", "meaning", "lies", "sentence"),
    [
        ("new/thing", "ms", "m", "l", "is in 'ms'"),
        ("new/thing", "s", "", "l", "what it is"),
        ("new/thing", "s", "m", "", "when it lies"),
        ("timer/step", "s", "m", "l", "is made by probes/wall, too"),
    ],
)
def test_a_probe_that_breaks_its_contract_is_found(
    guest: Install, tag: str, unit: str, meaning: str, lies: str, sentence: str
) -> None:
    guest("probes", PROBE.format(tag=tag, unit=unit, meaning=meaning, lies=lies))
    with pytest.raises(Broken, match=sentence):
        testing.check_probe("guest")
