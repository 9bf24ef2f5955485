"""What a user names, as the trace files of the ranks of one job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.kit.text import closest

SUFFIXES = (".json", ".json.gz", ".json.zip", ".json.xz", ".json.zst", ".xplane.pb", ".sqlite", "_results.db")
_RANK = re.compile(r"(?:^|[^a-z])rank[-_. ]?(\d+)", re.IGNORECASE)
_WORKER = re.compile(r"(?:^|[^a-z])(?:worker|node|gpu|r)[-_. ]?(\d+)(?!\d)", re.IGNORECASE)
_SESSION = re.compile(r"^(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d\d)$")
"""The folder of a session, `plugins/profile/2026_11_21_18_40_50`, as TensorFlow names it."""
_SPAN = re.compile(r"\.(\d{10,})\.pt\.trace\.json")


class NoTraces(LaptimeError):
    """A folder without any trace in it."""

    exit_code = ExitCode.NOTHING


class ChosenFiles(NamedTuple):
    """Files to read, and what was left out."""

    paths: list[Path]
    warnings: list[str]


def find(paths: Sequence[Path]) -> ChosenFiles:
    """The trace files that the paths name; a folder stands for the traces in it (or below it).

    Of several recordings of one worker (`worker0.1623143089861.pt.trace.json`, the time in the middle) the
    latest is taken.

    Raises:
        UsageError: a path does not exist. NoTraces: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _inside(path)
        elif path.exists():
            files.append(path)
        else:
            raise _missing(path)
    files = list(dict.fromkeys(files))
    latest = _latest(files)
    match len(files) - len(latest):
        case 0:
            return ChosenFiles(latest, [])
        case 1:
            return ChosenFiles(latest, ["1 earlier recording of a worker is left out"])
        case number:
            return ChosenFiles(latest, [f"{number} earlier recordings of workers are left out"])


def rank_in(name: str) -> int | None:
    """The rank that a file name tells: `rank-3.json.gz`, `worker7_step_12.1694128201553.pt.trace.json`."""
    for pattern in (_RANK, _WORKER):
        match = pattern.search(name)
        if match:
            return int(match.group(1))
    return None


def without_rank(text: str) -> str:
    """A path in which the rank of its name, or of its folders, is `#`."""
    for pattern in (_RANK, _WORKER):
        text = pattern.sub(lambda match: f"{match[0][: match.start(1) - match.start()]}#", text)
    return text


def _inside(folder: Path) -> list[Path]:
    direct = sorted(path for path in folder.iterdir() if _is_trace(path))
    files = direct or sorted(
        path for path in folder.rglob("*") if _is_trace(path) and ".laptime" not in path.parts
    )
    if not files:
        raise NoTraces(
            f"there is no trace in {folder}",
            why=f"no file in it ends in {' or '.join(SUFFIXES)}",
            next="laptime profile script.py, or laptime trace FILE",
        )
    return files


def _is_trace(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def _latest(paths: Iterable[Path]) -> list[Path]:
    latest: dict[tuple[Path, str], tuple[int, Path]] = {}
    for path in paths:
        match = _SPAN.search(path.name)
        key = (path.parent, path.name[: match.start()] if match else path.name)
        span = int(match.group(1)) if match else 0
        if path.name.endswith(".xplane.pb") and (session := _SESSION.match(path.parent.name)):
            key, span = (path.parent.parent, path.name), int("".join(session.groups()))
        if key not in latest or latest[key][0] < span:
            latest[key] = (span, path)
    return [path for _, path in latest.values()]


def _missing(path: Path) -> UsageError:
    folder = path.parent if path.parent.is_dir() else None
    names = [each.name for each in folder.iterdir()] if folder else []
    near = closest(path.name, names)
    return UsageError(
        f"there is no file {path}",
        why=f"{folder} has no such file" if folder else f"there is no folder {path.parent}",
        next=f"did you mean {path.parent / near}?" if near else "laptime trace FILE or FOLDER",
    )
