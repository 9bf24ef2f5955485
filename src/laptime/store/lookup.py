"""Stored runs by the words people use for them: a path, `last`, `last~2`, an id, a part of one, a --name."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.run import Run
from laptime.store import files, folder, index
from laptime.store.journal import is_running

_LAST = re.compile(r"last(?:~(\d{1,9}))?", re.ASCII)
_SHORTEST = 3  # letters of an id at least: fewer match by accident what was meant as something else
_COMPARED = 1000  # Names of ten times as many of the newest runs, among which a misspelt one is looked for


def load(reference: str, root: Path | None = None) -> Run:
    """The run that a path, id, name or `last~N` means.
    Raises UsageError: there is none, or its file cannot be read."""
    return files.read(find(reference, root))


def find(reference: str, root: Path | None = None) -> Path:
    """The file of the run that is meant. Raises UsageError: no run, or more than one, answers to this."""
    path = path_of(reference, root)
    if path is not None:
        return path
    if reference.endswith(folder.SUFFIXES):
        why = "the name ends like a run file"
        raise UsageError(f"there is no file {reference}", why=why, next="laptime list")
    runs = files.paths(root or folder.home())
    if not runs:
        why = f"nothing is stored under {root or folder.home()} yet"
        next_ = "laptime bench torchvision:resnet18"
        raise UsageError(f"no run matches {reference!r}", why=why, next=next_)
    last = _LAST.fullmatch(reference)
    if last:
        finished = sum(1 for _ in _find_ended(runs))
        why = f"only {finished} of them {'has' if finished == 1 else 'have'} ended"
        raise UsageError(f"there is no run {reference}", why=why, next="laptime list")
    recent = dict.fromkeys(name for name, _ in index.names(runs[: 10 * _COMPARED], root))
    near = closest(reference, itertools.islice(recent, _COMPARED))
    raise UsageError(
        f"no run matches {reference!r}",
        why="it is not a path, an id or part of one, or the --name of a stored run",
        next=f"did you mean {near!r}?" if near else "laptime list",
    )


def path_of(reference: str, root: Path | None = None) -> Path | None:
    """The file of the run that is meant, or None. Raises UsageError: more than one run answers to this."""
    path = Path(reference)
    if reference.endswith(folder.SUFFIXES) or "/" in reference:
        return path if reference.endswith(folder.SUFFIXES) and path.is_file() else None
    runs = files.paths(root or folder.home())
    last = _LAST.fullmatch(reference)
    if last:
        return next(itertools.islice(_find_ended(runs), int(last[1] or 0), None), None)
    by_id = {folder.id_of(Path(path)): path for path in runs if reference in path}
    if reference in by_id:
        return Path(by_id[reference])
    named = next((path for name, path in index.names(runs, root) if name == reference), None)
    return (root or folder.home()) / named if named else _by_part(reference, by_id)


def is_own(path: Path, root: Path | None = None) -> bool:
    """Whether a run file lies in the store; others may come from anybody."""
    return path.resolve().is_relative_to((root or folder.home()).resolve())


def _by_part(part: str, by_id: dict[str, str]) -> Path | None:
    ids = [run_id for run_id in by_id if run_id.startswith(part) or run_id.endswith(part)]
    if len(part) < _SHORTEST or not ids:
        return None
    if len(ids) > 1:
        what, next = f"{part!r} may mean {len(ids)} runs", f"type more of it, for example {ids[0]}"
        raise UsageError(what, why=f"{', '.join(ids[:3])}{' ...' if len(ids) > 3 else ''}", next=next)
    return Path(by_id[ids[0]])


def _find_ended(runs: list[str]) -> Iterator[Path]:
    """All but those that are being measured right now."""
    return (Path(path) for path in runs if not path.endswith(".jsonl") or not is_running(Path(path)))
