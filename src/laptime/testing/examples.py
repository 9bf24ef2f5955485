"""Example runs and profiles that ship with laptime: reports, checks and rules are tried on them.

`tests/fixtures` makes them; `tests/golden/test_examples.py` fails when a file is stale, and rewrites it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.store import encoding

KINDS = ("bench", "profile", "tune", "other")
"""Kinds of example runs: a file `examples/KIND.json.gz` each, a JSON object of runs by name."""


def runs(kinds: Iterable[str] = KINDS) -> dict[str, Run]:
    """Example runs by name: bench runs of every trust, profiles, tuning sessions, trace, check, suite."""
    return {name: run for kind in kinds for name, run in _decoded(kind, Run).items()}


def profiles() -> dict[str, Profile]:
    """A profile for each of laptime's rules that makes it speak, and two on which every rule is silent."""
    return dict(_decoded("diagnosed", Profile))


@cache
def _decoded(name: str, record: Any) -> dict[str, Any]:
    packed = files("laptime.testing").joinpath("examples", f"{name}.json.gz").read_bytes()
    examples: dict[str, Any] = encoding.decode(gzip.decompress(packed), dict[str, record])
    return examples
