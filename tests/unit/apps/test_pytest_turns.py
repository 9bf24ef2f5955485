"""`--laptime-against-rev`: pairs of pytests, and what is made of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import runs
from laptime.apps.pytest_plugin import turns
from laptime.apps.pytest_plugin.session import Options, Session
from laptime.records.run import Run
from laptime.records.series import Label
from laptime.verbs.public_run import Run as PublicRun

WORK = "N = {}\n"
TESTS = """
from work import N

def work():
    return sum(i * i for i in range(N))

def test_work(laptime):
    laptime(work)
"""


def side(*levels: float, seed: int) -> Run:
    return runs.run(
        *(
            runs.case(
                runs.timings(level, n=30, seed=seed + at), target=f"test_it.py::test_{at}", axes={"batch": 1}
            )
            for at, level in enumerate(levels)
        )
    )


def pairs(now: float) -> list[turns.Sides]:
    """A machine whose speed changes by half from pair to pair: pairs cancel it."""
    return [
        (side(0.01 * machine, 0.01, seed=number), side(now * machine, 0.01, seed=99 + number))
        for number, machine in enumerate([1, 1.5, 1, 1.3, 1.5, 1])
    ]


def test_pairs_cancel_what_the_machine_does_meanwhile() -> None:
    slower, same = turns.compare_tests(pairs(0.018))
    assert (slower.word, slower.pairs, slower.candidate.partition("/")[0]) == (
        "slower",
        6,
        "test_it.py::test_0",
    )
    assert slower.speedup == pytest.approx(1 / 1.8, rel=0.02)
    assert same.word in ("same", "unclear")


def test_on_a_busy_machine_the_fastest_calls_are_compared() -> None:
    """Neighbours double nine calls of ten on one side of each pair, and are labelled."""

    def beside(of: Run) -> Run:
        latency = of.cases[0].series[0]
        samples = [each * (1 if at % 10 == 0 else 2) for at, each in enumerate(latency.samples)]
        hit = structs.replace(latency, samples=samples, label=[int(Label.WAITED)] * len(samples))
        return structs.replace(of, cases=[structs.replace(of.cases[0], series=[hit])])

    (found,) = turns.compare_tests([(before, beside(now)) for before, now in pairs(0.0125)])
    assert found.word == "slower"
    assert 1 / found.speedup == pytest.approx(1.25, rel=0.05)


def test_a_test_that_is_new_or_measured_nothing_once_is_left_out() -> None:
    told = pairs(0.01)
    told[2] = (structs.replace(told[2][0], cases=told[2][0].cases[:1]), told[2][1])
    assert [each.candidate.partition("/")[0] for each in turns.compare_tests(told)] == ["test_it.py::test_0"]


def test_a_slower_test_fails_the_session_and_the_comment_begins_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "pairs_of", lambda *words, **more: pairs(0.018))
    comment = tmp_path / "comment.md"
    session = Session(Options(against_rev="main", compare_fail=0.1, reports=(str(comment),)))
    session.add("test_it.py::test_0", PublicRun.of(side(0.018, seed=1)), {})
    session.add("test_it.py::test_new", PublicRun.of(side(0.018, seed=1)), {})
    session.finish(lambda text: None)
    assert session.is_worse
    text = "\n".join(session.summary())
    assert "slower: test_it.py::test_0" in text
    assert "test_it.py::test_new" in text
    assert "takes 1.8" in comment.read_text()
    assert "1 of 2" in comment.read_text()


def test_sides_run_in_turns_in_the_revision_and_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository(tmp_path)
    monkeypatch.chdir(folder)
    seen: list[tuple[str, str]] = []

    def measured(name: str, place: Path, environ: object, **others: object) -> Run:
        seen.append((name, (place / "work.py").read_text()))
        return side(0.01, seed=len(seen))

    monkeypatch.setattr(turns, "_measure", measured)
    made = turns.pairs_of("HEAD", [], budget=1, say=lambda text: None)
    assert len(made) == turns.PAIRS
    assert [name for name, _ in seen[:4]] == ["HEAD", "the working tree", "the working tree", "HEAD"]
    assert {*seen} == {("HEAD", WORK.format(1000)), ("the working tree", WORK.format(9000))}


def repository(folder: Path) -> Path:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (folder / "work.py").write_text(WORK.format(1000))
    (folder / "test_it.py").write_text(TESTS)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    (folder / "work.py").write_text(WORK.format(9000))
    return folder


@pytest.mark.slow
def test_nine_times_the_work_is_slower(tmp_path: Path) -> None:
    own = ["-p", "laptime.apps.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    asked = ["--laptime-against-rev", "HEAD", "--laptime-compare-fail", "10%", "--laptime-report", "c.md"]
    folder = repository(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *own, *asked, "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LAPTIME_HOME": str(folder / "runs")},
    )
    assert done.returncode == 1, done.stdout
    assert "FAILED test_it.py::test_work" in done.stdout
    assert "1 of 1" in (folder / "c.md").read_text()
