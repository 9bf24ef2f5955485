"""The calls of a profile for speedscope.app: a profile of the host's time, and one of the device's.

Source: https://www.speedscope.app/file-format-schema.json, profiles of type `sampled`. A weight is
the own time of a call over all steps, in nanoseconds."""

import json
import re
from itertools import compress
from typing import Any

from laptime.records.profile import CallTree
from laptime.records.run import Run
from laptime.reports._words import plain, title
from laptime.reports.formats import refusal

NAME = "speedscope"
SUFFIXES: tuple[str, ...] = (".speedscope.json", ".speedscope")
_FRAME = re.compile(r"(.+?)\((\d+)\): (.+)")


def render(run: Run) -> str:
    """One JSON document. Raises UsageError: the run has no calls."""
    if run.profile is None or run.profile.calls is None:
        raise refusal(run, NAME, "the calls of a profile")
    tree = run.profile.calls
    weights = {"host": tree.host_ns, "device": tree.device_ns}
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"laptime {run.laptime}",
        "name": plain(title(run)),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(name) for name in tree.names]},
        "profiles": [_profile(tree, name, own) for name, own in weights.items() if any(own)],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def _frame(name: str) -> dict[str, Any]:
    parts = _FRAME.fullmatch(name)
    if parts is None:
        return {"name": plain(name)}
    return {"name": plain(parts[3]), "file": plain(parts[1]), "line": int(parts[2])}


def _profile(tree: CallTree, name: str, own: list[int]) -> dict[str, Any]:
    stacks = list[list[int]]()
    for above, frame in zip(tree.parent, tree.name_index, strict=True):
        stacks.append([*(stacks[above] if above >= 0 else ()), frame])
    samples, weights = compress(stacks, own), filter(None, own)
    whole = {"type": "sampled", "name": name, "unit": "nanoseconds", "startValue": 0, "endValue": sum(own)}
    return {**whole, "samples": [*samples], "weights": [*weights]}
