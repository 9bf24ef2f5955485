"""The examples that ship with `laptime.testing` are those of the fixtures; LAPTIME_GOLDEN=write updates."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laptime.testing
from fixtures import diagnosed, profiles, runs, tunings
from laptime.store import encoding
from laptime.testing import conformance

FOLDER = Path(laptime.testing.__file__).parent / "examples"


def _made(makers: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    return {name: make() for name, make in makers.items()}


MAKERS = {
    "bench": lambda: _made(runs.scenarios()),
    "profile": lambda: _made({"profile": profiles.example, "profile-cpu": profiles.cpu_only}),
    "tune": lambda: _made(tunings.samples()),
    "other": lambda: {
        "trace": msgspec.structs.replace(profiles.cpu_only(), verb="trace"),
        **_made({"check": runs.checked, "suite": runs.suite}),
    },
    "diagnosed": lambda: {
        **{f"fires {rule}": profile for rule, profile in diagnosed.firing().items()},
        "quiet": diagnosed.gpu(),
        "quiet, CPU": diagnosed.cpu(),
    },
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_examples_that_ship_are_those_of_the_fixtures(name: str) -> None:
    made, path = MAKERS[name](), FOLDER / f"{name}.json.gz"
    if os.environ.get("LAPTIME_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(encoding.encode(made), mtime=0))
        conformance._decode.cache_clear()
    shipped = conformance.profiles() if name == "diagnosed" else conformance.runs([name])
    assert list(shipped) == list(made)
    for each, record in made.items():
        as_stored = encoding.decode(encoding.encode(record), type(record))  # 1 of a float field is 1.0 then
        assert encoding.encode(shipped[each]) == encoding.encode(as_stored), each
