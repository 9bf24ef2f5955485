"""check: budgets, baselines, exit codes, reports for CI."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.summary import headline
from laptime.records.case import Failure
from laptime.records.run import Run
from laptime.store import files
from laptime.verbs.check import Rules, of_pairs, of_revision, present

Laptime = Callable[..., Any]
Fake = Callable[[Run], Any]


def stored(level: float, number: int, name: str = "", **changes: Any) -> Run:
    """A stored run of one program at this latency, on a machine whose neighbours do not show."""
    bare = structs.replace(runs.environment(), virtual="")
    case = runs.case(runs.timings(level, n=160, spread=0.003, seed=number), *runs.facts())
    run = runs.run(case, id=f"20260801-00000{number}-000-a", name=name, environment=bare)
    run = structs.replace(run, **changes)
    files.save(run)
    return run


def rules(text: str) -> None:
    Path("laptime.toml").write_text(text)


@pytest.mark.parametrize(("limit", "word", "code"), [("30 ms", "passed", 0), ("20 ms", "not passed", 1)])
def test_a_budget_is_kept_or_broken(laptime: Laptime, limit: str, word: str, code: int) -> None:
    stored(0.0263, 1)
    rules(f"[[budget]]\nmax = {limit!r}\n")
    ended = laptime("check")
    assert (ended.code, ended.out.partition("  ")[0]) == (code, word)
    assert limit.split()[0] in ended.out


def on_the_edge() -> None:
    """A budget that lies in the middle of its number's interval."""
    stat = headline(stored(0.0263, 1).cases[0])
    assert stat is not None
    rules(f"[[budget]]\nmax = {stat.value}\n")


def test_budgets_are_meant_for_cases_and_metrics(laptime: Laptime) -> None:
    stored(0.0263, 1)
    rules(
        "[[budget]]\ncase = 'torchvision:*'\nmetric = 'memory/host/peak'\nmax = '1 GiB'\n"
        "[[budget]]\ncase = 'torchvision:resnet18/batch=1/*'\nmetric = 'throughput'\nmin = '100/s'\n"
    )
    document = json.loads(laptime("check", "--json").out)
    assert document["schema"] == "laptime.check/1"
    assert document["conclusion"] == "broken"
    assert [each["word"] for each in document["verdicts"]] == ["kept", "broken"]


@pytest.mark.parametrize(
    ("text", "said", "following"),
    [
        ("[[budget]]\nmx = 1", "unknown key 'mx'", "did you mean 'max'?"),
        ("[check]\nagianst = 'x'", "unknown key 'agianst'", "did you mean 'against'?"),
        ("[[budget]\n", "is not TOML", ""),
        ("[[budget]]\nmax = []", "impossible", ""),
        ("[[budget]]\nmax = '3 GB'", "not an amount in s", ""),
        ("[[budget]]\nmax = 1\ncase = 'timm:*'", "matches no case", "torchvision:resnet18*"),
        ("[[budget]]\nmax = 1\nmetric = 'memory/host/peek'", "no metric", "memory/host/peak"),
        ("[other]\nx = 1", "nothing to check against", "--against"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(
    laptime: Laptime, text: str, said: str, following: str
) -> None:
    stored(0.0263, 1)
    rules(text)
    ended = laptime("check")
    assert ended.code == 2
    assert ended.out == ""
    assert said in ended.err
    assert following in ended.err


@pytest.mark.parametrize(
    ("level", "word", "code"), [(0.0263, "undecided", 3), (0.040, "not passed", 1), (0.020, "passed", 0)]
)
def test_a_run_is_checked_against_a_baseline(laptime: Laptime, level: float, word: str, code: int) -> None:
    """Runs apart in time do not prove that nothing changed by 5 %; what does is told."""
    stored(0.0263, 1, "baseline")
    stored(level, 2)
    ended = laptime("check", "last", "--against", "baseline")
    assert (ended.code, ended.out.partition("  ")[0]) == (code, word)
    assert ("--against-rev" in ended.out) == (word == "undecided")
    assert laptime("check", "last", "--against", "baseline", "--tolerance", "80%").code == 0


def test_the_file_may_say_against_what_and_how_strictly(laptime: Laptime) -> None:
    stored(0.0263, 1, "baseline")
    stored(0.040, 2)
    rules("[check]\nagainst = 'baseline'\n")
    assert laptime("check").code == 1
    rules("[check]\nagainst = 'baseline'\ntolerance = '90%'\n")
    assert laptime("check").code == 0
    rules("[check]\nagainst = 'baseline'\n[[budget]]\ncase = 'torch*'\nregression = '90%'\n")
    assert laptime("check").code == 0


def test_other_conditions_are_refused_unasked(laptime: Laptime) -> None:
    old = stored(0.0263, 1, "baseline")
    stored(0.040, 2, environment=structs.replace(old.environment, libraries={"torch": "9"}))
    ended = laptime("check", "--against", "baseline")
    assert ended.code == 2
    assert "--force" in ended.err
    assert laptime("check", "--against", "baseline", "--force").code == 1


def test_a_case_that_fails_now_is_broken(laptime: Laptime) -> None:
    old = stored(0.0263, 1, "baseline")
    bad = structs.replace(
        old.cases[0], status="failed", failure=Failure(kind="died", what="it died"), series=[]
    )
    files.save(structs.replace(old, id="20260801-000002-000-a", name="", cases=[bad]))
    ended = laptime("check", "--against", "baseline")
    assert ended.code == 1
    assert "it died" in ended.out


def test_a_target_is_measured_first_as_its_baseline_was(laptime: Laptime, fake_bench: Fake) -> None:
    stored(0.0263, 1, "baseline")
    fake = fake_bench(stored(0.040, 2))
    ended = laptime("check", "torchvision:resnet18", "--against", "baseline")
    assert fake.requests[0].targets == ["torchvision:resnet18"]
    assert fake.requests[0].batch == [1]
    assert ended.code == 1


def test_reports_for_ci_tell_every_verdict(laptime: Laptime) -> None:
    stored(0.0263, 1)
    rules("[[budget]]\nmax = '20 ms'\n[[budget]]\nmetric = 'memory/host/peak'\nmax = '1 GiB'\n")
    ended = laptime("check", "-o", "junit.xml", "-o", "comment.md")
    assert ended.code == 1
    suite = ElementTree.fromstring(Path("junit.xml").read_text()).find("testsuite")
    assert suite is not None
    names = [test.get("name") for test in suite.findall("testcase")]
    assert names[:2] == ["latency/isolated/median max", "memory/host/peak max"]
    assert len(names[2:]) == 2  # the case, and the check of its numbers
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "0")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "at most 20" in (failure.get("message") or "")
    comment = Path("comment.md").read_text()
    assert "broken" in comment.splitlines()[0] + comment.splitlines()[2]
    assert "at most 20" in comment


def test_undecided_does_not_pass_in_ci(laptime: Laptime) -> None:
    on_the_edge()
    ended = laptime("check", "-o", "junit.xml")
    assert (ended.code, ended.out.partition("  ")[0]) == (3, "undecided")
    suite = ElementTree.fromstring(Path("junit.xml").read_text()).find("testsuite")
    assert suite is not None
    assert suite.get("errors") == "1"


def test_budgets_hold_for_what_is_now_not_for_the_revision() -> None:
    cases = [
        runs.case(runs.timings(level), axes={"batch": 4, **again})
        for level, again in ((0.040, {}), (0.010, {"again": 2}))
    ]
    (now,) = present(runs.run(*cases)).cases
    assert now.key == cases[0].key
    assert now.series == cases[1].series
    (verdict,) = of_revision(
        structs.replace(runs.run(*cases), comparisons=of_pairs(runs.run(*cases))), Rules()
    )
    assert (verdict.case, verdict.word) == (now.key, "kept")
