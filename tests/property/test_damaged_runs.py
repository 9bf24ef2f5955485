"""One run file, damaged in any field, costs no other run anything, and is no bug of the program."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from fixtures import costs, profiles, runs, tunings
from laptime.analysis.between_runs import between_runs
from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.store import files, index, lookup
from laptime.store.encoding import encode, spell_out
from laptime.store.schema import read_run
from laptime.verbs.compare import compare_runs
from laptime.verbs.history import history, recent

Place = tuple[str | int, ...]

GOOD = [
    structs.replace(runs.trusted(), id=f"20260801-00000{n}-000-good0{n}", name=f"good{n}") for n in (1, 2)
]
LOADS = [costs.level(4.0, 0.2, n=40), costs.level(4.0, 0.4, served=2.0, n=40, tokens=5), costs.one_user(n=40)]
OTHERS = {
    "load": costs.run(*LOADS, verb="load"),
    "profile": profiles.example(),
    "profile-cpu": profiles.cpu_only(),
    "tune": tunings.full(),
    "tune-model": tunings.model(),
    "tune-server": tunings.server(),
}
BAD = structs.replace(runs.noisy(), id="20991231-235959-000-bad000", name="bad")
DOCUMENT: dict[str, Any] = json.loads(encode(BAD))
HOSTILE: list[Any] = [
    *(math.nan, math.inf, -math.inf, -1, 0, 1e308, 5e-324, 2**53, -(2**62), 1.5, True, None),
    *("", "x", "nan", "\x00\x1b[31m", [], {}, [None], ["x"], [1, 2, 3]),
]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Where something stands in a document; of long lists the first and the last."""
    yield here
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*here, name))
    elif isinstance(value, list):
        for at in sorted({0, len(value) - 1} if value else ()):
            yield from places(value[at], (*here, at))


PLACES = [place for place in places(DOCUMENT) if place and place[0] not in ("id", "name")]


def changed(value: Any, place: Place, new: Any, every: bool) -> Any:
    """The document with something else at a place; `every`: for each element of the list there."""
    if not place:
        return [new] * len(value) if every and isinstance(value, list) else new
    copy = value.copy()
    copy[place[0]] = changed(value[place[0]], place[1:], new, every)
    return copy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for run in GOOD:
        path = files.save(run, folder)
        os.utime(path, ns=(0, 0))  # long ago: its rows are kept
    return folder


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.sampled_from(PLACES), new=st.sampled_from(HOSTILE), every=st.booleans())
@example(("environment", "usable_cpus"), math.nan, False)
@example(("environment", "usable_cpus"), math.inf, False)
@example(("environment", "load"), {"average": math.nan}, False)
@example(("cases", 0, "axes"), {"batch": 0}, False)
@example(("cases", 0, "series", 0, "samples"), 0.0, True)
@example(("cases", 0, "series", 0, "samples"), [1.0, 2.0], False)
@example(("cases", 0, "series", 0, "samples"), math.nan, True)
@example(("started",), "yesterday", False)
def test_no_other_run_is_lost_and_the_damaged_one_is_named(
    home: Path, place: Place, new: Any, every: bool
) -> None:
    path = home / "runs/2099-12" / f"{BAD.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(spell_out(changed(DOCUMENT, place, new, every))))
    lines, total = index.listing(home)
    listed = [*lines]
    assert (total, [line.name for line in listed[1:]]) == (3, ["good2", "good1"])
    assert listed[0].name == "bad" or listed[0].fault
    points = [point.run for each in history(root=home, force=True) for point in each.points]
    assert {run.id for run in GOOD} <= {*points}
    assert {run.id for run in GOOD} <= {run.id for run in recent(root=home)}
    compare_runs(GOOD[0], GOOD[1], earlier=recent(root=home))
    assert lookup.load("good1", home) == GOOD[0]
    try:
        run = files.read(path)
    except UsageError as error:
        assert listed[0].fault
        assert path.name in error.what  # noqa: PT017 (an error is one of two right answers)
    else:
        shown_and_compared(run)


def shown_and_compared(run: Run) -> None:
    """What can be read can be shown; it is compared, or refused in words."""
    for name in ("text", "json"):
        registry.load("reports", name).render(run)
    between_runs(GOOD, run, GOOD[0])
    for one, other in ((run, GOOD[0]), (GOOD[0], run)):
        with suppress(UsageError):
            compare_runs(one, other, True, earlier=[run, *GOOD])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@pytest.mark.parametrize("name", OTHERS)
@given(data=st.data())
def test_a_damaged_run_of_any_verb_is_shown_or_refused_in_words(name: str, data: st.DataObject) -> None:
    good = OTHERS[name]
    document = json.loads(encode(good))
    place = data.draw(st.sampled_from([place for place in places(document) if place]))
    old = found(document, place)
    alike = [old[:1], old[:-1], old * 2, old[::-1]] if isinstance(old, list) else []
    new = data.draw(st.sampled_from([*HOSTILE, *alike]))
    text = json.dumps(spell_out(changed(document, place, new, data.draw(st.booleans()))))
    shown_or_refused(text.encode(), good)


@pytest.mark.parametrize("column", ["number", "due", "first", "end"])
@pytest.mark.parametrize("new", [[], [0.0] * 5, [math.nan], [1e300]])
def test_a_load_whose_columns_do_not_fit_is_damaged(column: str, new: list[float]) -> None:
    document = json.loads(encode(OTHERS["load"]))
    rows = document["cases"][0]["requests"]
    rows[column] = [*rows[column][:-1], *new] if len(new) == 1 and column != "number" else new
    with pytest.raises(UsageError, match="damaged"):
        read_run(json.dumps(spell_out(document)).encode(), Path("x.json"))


def found(value: Any, place: Place) -> Any:
    """What stands at a place."""
    for step in place:
        value = value[step]
    return value


def shown_or_refused(data: bytes, good: Run) -> None:
    """No other end than an error in words."""
    with suppress(UsageError):
        run = read_run(data, Path("x.json"))
        for name in registry.names("reports"):
            with suppress(UsageError):
                registry.load("reports", name).render(run)
        for one, other in ((run, good), (good, run)):
            with suppress(UsageError):
                compare_runs(one, other, True)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "dangling"])
def test_what_is_no_file_in_the_store_is_named_and_not_waited_for(
    tmp_path: Path, kind: str, suffix: str
) -> None:
    good = files.save(GOOD[0], tmp_path)
    path = good.parent / f"20991231-235959-000-bad000{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else "/nowhere/at/all")
    listed = [*index.listing(tmp_path)[0]]
    assert [line.name for line in listed if not line.fault] == ["good1"]
    if kind != "dangling":  # a file that somebody removes meanwhile looks the same
        assert [line.fault for line in listed if line.fault]
    assert len(history(root=tmp_path)) == 1
    assert lookup.load("good1", tmp_path) == GOOD[0]
    with pytest.raises(UsageError):
        files.read(path)
