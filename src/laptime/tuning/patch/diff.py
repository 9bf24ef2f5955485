"""Unified diffs in which every change has a hunk of its own, where lines between them allow it; whether one
applies, and what it makes of the files.

Lines end at LF, as they do for git: a CR before it is part of the line. Pure functions on text."""

import difflib
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Labels = list[tuple[str, ...]]
"""Names of the changes that have made each line of a text; () for the user's own."""
CONTEXT = 3


@dataclass
class Hunk:
    """Changes of a text that stand together."""

    edits: list[tuple[int, int, int, int]]  # ranges of both texts that differ; from 0, ends excluded
    names: tuple[str, ...]  # whose they are
    # above, below: lines around them that are shown, too
    above: int = CONTEXT
    below: int = CONTEXT


def lines(text: str) -> list[str]:
    """Lines with their LF."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def relabel(old: str, new: str, labels: Labels, name: str) -> Labels:
    """Labels of the new text's lines, when the difference was made by the optimization of this name."""
    relabelled: Labels = []
    matcher = difflib.SequenceMatcher(None, lines(old), lines(new), autojunk=False)
    pending: tuple[str, ...] = ()
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            part = list(labels[a:b])
            part[0] = _join(part[0], pending)
            relabelled += part
            pending = ()
        elif tag == "delete":
            pending = _join(*labels[a:b], (name,))
        else:
            before = _join(*labels[a:b]) if tag == "replace" else ()
            relabelled += [_join(before, (name,))] * (d - c)
    if pending and relabelled:
        relabelled[-1] = _join(relabelled[-1], pending)
    return relabelled


def _join(*names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(itertools.chain(*names)))


def hunks(old: str, new: str, labels: Labels) -> list[Hunk]:
    """The differences as hunks with context; two changes are apart if two lines or more lie between."""
    before, after = lines(old), lines(new)
    groups: list[Hunk] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        names = _join(*labels[c:d]) if d > c else _join(*(labels[c : c + 1] or labels[-1:]))
        gap = a - groups[-1].edits[-1][1] if groups else 3 * CONTEXT
        if gap < 2 or (gap <= 2 * CONTEXT and set(names) == set(groups[-1].names)):
            groups[-1].edits.append((a, b, c, d))
            groups[-1].names = _join(groups[-1].names, names)
        else:
            groups.append(Hunk([(a, b, c, d)], names))
    for upper, lower in itertools.pairwise(groups):
        gap = lower.edits[0][0] - upper.edits[-1][1]
        if gap < 2 * CONTEXT:
            # patch(1) wants as much context above as below, so both have what the closer side allows.
            upper.below = min(gap // 2, CONTEXT)
            lower.above = min(gap - upper.below, CONTEXT)
    for group in groups:
        wanted = min(group.above, group.below)
        group.above = min(wanted, group.edits[0][0])
        group.below = min(wanted, len(before) - group.edits[-1][1])
    return groups


def diff_file(old: str, new: str, shown: str, parts: list[Hunk]) -> str:
    """The diff of one file, "" when nothing differs. `shown` is its path with slashes."""
    if not parts:
        return ""
    before, after = lines(old), lines(new)
    first, second = _quote(f"a/{shown}"), _quote(f"b/{shown}")
    tab = "\t" if " " in shown and not first.startswith('"') else ""
    head = f"diff --git {first} {second}\n--- {first}{tab}\n+++ {second}{tab}\n"
    return head + "".join(_hunk_text(part, before, after) for part in parts)


def _hunk_text(part: Hunk, before: list[str], after: list[str]) -> str:
    first, last = part.edits[0], part.edits[-1]
    at, end = first[0] - part.above, last[1] + part.below
    rows = [f"@@ -{_range(at, end)} +{_range(first[2] - part.above, last[3] + part.below)} @@\n"]
    for a, b, c, d in part.edits:
        rows += [_row(" ", line) for line in before[at:a]]
        rows += [_row("-", line) for line in before[a:b]]
        rows += [_row("+", line) for line in after[c:d]]
        at = b
    return "".join([*rows, *(_row(" ", line) for line in before[at:end])])


def _row(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _quote(path: str) -> str:
    """Quote a path as git does if it holds quotes, backslashes or control characters."""
    if not re.search(r'["\\\x00-\x1f\x7f]', path):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    octal = re.sub(r"[\x00-\x1f\x7f]", lambda character: f"\\{ord(character.group()):03o}", escaped)
    return f'"{octal}"'


# Applied


SECONDS = 60.0


class DoesNotApply(Exception):
    """The text says why."""


def patch_copies(diff: str, texts: Mapping[Path, str], root: Path, into: Path) -> dict[str, str]:
    """Copies of files below a folder, at the same relative paths, that `git apply` has made of them.

    `patch` is asked if there is no git; if there is neither, the texts are written as they are.

    texts: what the files have to hold then, by their paths below `root`. Returns path of the copy, by the
    path that it stands in for: what `instrument.program.install` takes, so that `__file__` and imports of the
    script stay as they are.
    Raises DoesNotApply: they hold something else then, or it is a diff of nothing."""
    if not diff or not all(path.is_relative_to(root) and path.is_file() for path in texts):
        raise DoesNotApply(f"nothing below {root} is changed by it")
    copies = {path: into.resolve() / path.relative_to(root) for path in texts}
    for path, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    commands = {"git": ["-c", "core.autocrlf=false", "apply"], "patch": ["-p1", "--binary", "--silent"]}
    command = next(([name, *words] for name, words in commands.items() if shutil.which(name)), None)
    wanted = {copy: texts[path].encode() for path, copy in copies.items()}
    if command is None:
        for copy, content in wanted.items():
            copy.write_bytes(content)
    else:
        # A repository around the folder has no say.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environ["GIT_CEILING_DIRECTORIES"] = str(into.resolve().parent)
        bounds: Any = {"cwd": into, "env": environ, "timeout": SECONDS}
        done = subprocess.run(command, input=diff.encode(), capture_output=True, check=False, **bounds)
        if done.returncode or any(copy.read_bytes() != content for copy, content in wanted.items()):
            raise DoesNotApply(f"{command[0]} makes something else of it: {done.stderr.decode().strip()}")
    return {str(path): str(copy) for path, copy in copies.items()}
