"""Scripts of several shapes, with the sites that trials have found in them; scripts written in a test."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import Change
from laptime.tuning.patch.sources import Sources

SCRIPTS = Path(__file__).parent / "scripts"


def copied(into: Path) -> None:
    """All scripts, under their own names: they are kept as text, so that nobody formats them."""
    for path in SCRIPTS.rglob("*.txt"):
        copy = into / path.relative_to(SCRIPTS).with_suffix("")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


CONTRACT = """
from laptime.tuning.optimization import Optimization
def apply(loop, options): pass
OPTIMIZATION = Optimization(title="made up", numerics="exact", saves={}, apply=apply, edit=edit)
"""
"""What every optimization has, beside the edit that a test is about."""


@pytest.fixture
def shape(tmp_path: Path) -> Callable[[str], Sources]:
    """The sources of one of `scripts/`, in a folder of its own."""
    recorded = json.loads((SCRIPTS / "sites.json").read_text())

    def made(name: str) -> Sources:
        copied(tmp_path)
        sites = [Site(**{**each, "file": str(tmp_path / each["file"])}) for each in recorded[name]]
        return Sources(tuple(sites), str(tmp_path / name), "cpu")

    return made


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Sources]:
    """A script from text. A site is a tuple: kind, the text where it begins, and further fields of `Site`."""

    def made(text: str, *sites: tuple[Any, ...], name: str = "train.py") -> Sources:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = textwrap.dedent(text).lstrip("\n")
        path.write_bytes(text.encode())
        found = []
        for kind, snippet, *rest in sites:
            assert text.count(snippet) == 1, snippet
            line = text[: text.index(snippet)].count("\n") + 1
            fields = rest[0] if rest else {}
            end = line + snippet.count("\n")
            found.append(Site(**{"kind": kind, "file": str(path), "line": line, "end_line": end, **fields}))
        return Sources(tuple(found), str(path), "cpu")

    return made


@pytest.fixture
def change(tmp_path: Path) -> Callable[[str], Change]:
    """An optimization whose `edit` is this code; `script` is the editor."""

    def made(code: str) -> Change:
        number = len(list(tmp_path.glob("optimization_*.py")))
        path = tmp_path / f"optimization_{number}.py"
        edit = "def edit(script, options):\n" + textwrap.indent(textwrap.dedent(code), "    ")
        path.write_text(edit + CONTRACT)
        return Change(str(path))

    return made


@pytest.fixture
def edited(change: Callable[[str], Change]) -> Callable[..., str]:
    """The main file after an edit; the edit is made twice, which must be the same as once."""

    def made(sources: Sources, code: str, comment: str = "") -> str:
        main = sources.main
        assert main is not None
        sources.apply(change(code), comment)
        once = {path: file.text for path, file in sources.files.items()}
        assert sources.apply(change(code), comment) == [], "a second time there is nothing left to edit"
        assert {path: file.text for path, file in sources.files.items()} == once
        return sources.files[main].text

    return made
