"""What makes a page one file that is safe to open: assets, templates, policy, data, the timeline's ranges.

A content security policy allows only the page's own style and script, by hash. Words of strangers are escaped
by the template; folders of this machine are cut off.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from laptime.kit.text import count
from laptime.records.tables import Timeline
from laptime.reports import _words as words
from laptime.reports._words import plain

NAME = 600
"""Characters of a name: some kernels have names as long as this page."""


@cache
def asset(*names: str) -> str:
    """Files of `assets/`, one after the other."""
    folder = files("laptime.reports").joinpath("assets")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


@cache
def template(source: str) -> Template:
    """A template that escapes all it is given and fails at a name that it was not given.

    To compile one takes ten times as long as to fill it in: who writes many pages compiles it once.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(plain=words.plain, count=count, capital=capital)
    return environment.from_string(source)


def capital(text: str) -> str:
    """The text with a capital first letter, unless it begins with a name from a program."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def policy(style: str, script: str) -> str:
    """Nothing from anywhere, and only the style and the script of this page."""
    return (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def inlined(data: Any) -> Markup:
    """JSON that cannot end its script element, without folders of this machine."""
    text = json.dumps(_without_paths(data), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 (escaped above)


def _without_paths(data: Any) -> Any:
    if isinstance(data, str):
        return words.without_paths(data)
    if isinstance(data, dict):
        return {words.without_paths(str(name)): _without_paths(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_paths(value) for value in data]
    return data


def packed(timeline: Timeline) -> str:
    """Deflated JSON in base64: 12,000 ranges in about 150 KB; nothing in it can be markup."""
    text = json.dumps(_plain(timeline), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _plain(timeline: Timeline) -> dict[str, Any]:
    """Starts as differences to the one before: small numbers compress well. Rows stay in their order."""
    return {
        "step": timeline.step,
        "dur": max(timeline.dur_ns, 1),
        "names": [plain(name[:NAME]) for name in timeline.names],
        "categories": [plain(name) for name in timeline.categories],
        "lanes": [
            {
                "kind": lane.kind,
                "name": plain(lane.name),
                "start": _differences(lane.start_ns),
                "dur": lane.dur_ns,
                "text": lane.name_index,
                "depth": lane.depth,
                "category": lane.category,
            }
            for lane in timeline.lanes
        ],
        "arrows": timeline.arrows,
    }


def _differences(numbers: list[int]) -> list[int]:
    return [b - a for a, b in itertools.pairwise([0, *numbers])]
