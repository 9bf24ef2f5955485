"""Find the trace files of the ranks of one job from what a user names.

Traces of a folder are the ranks of one job if they share what ranks share:

1. Files that state a job of several ranks (distributedInfo) belong together if they state the same one: world
   size, backend, NCCL version.
2. Others belong together if their names differ by nothing but the rank (and times and process ids), or by
   nothing but these, written within seconds; files of one session of TensorFlow do, too.
3. Nobody is there twice: a second file of a rank is of another job.

Lies when: two jobs of one kind lie in one folder and their names do not tell them apart."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.kit.text import closest
from laptime.trace.reading import reader
from laptime.trace.reading.assemble import whole
from laptime.trace.reading.xplane.reading import SUFFIX

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

    Raises UsageError: a path does not exist. NoTraces: a folder has none."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _inside(path)
        elif path.exists():
            files.append(path)
        else:
            folder = path.parent if path.parent.is_dir() else None
            names = [each.name for each in folder.iterdir()] if folder else []
            near = closest(path.name, names)
            raise UsageError(
                f"there is no file {path}",
                why=f"{folder} has no such file" if folder else f"there is no folder {path.parent}",
                next=f"did you mean {path.parent / near}?"
                if near
                else "name a trace file, or a folder of them",
            )
    files = list(dict.fromkeys(files))
    spans: dict[tuple[Path, str], tuple[int, Path]] = {}
    for path in files:
        match = _SPAN.search(path.name)
        key = (path.parent, path.name[: match.start()] if match else path.name)
        span = int(match.group(1)) if match else 0
        if path.name.endswith(".xplane.pb") and (session := _SESSION.match(path.parent.name)):
            key, span = (path.parent.parent, path.name), int("".join(session.groups()))
        if key not in spans or spans[key][0] < span:
            spans[key] = (span, path)
    latest = [path for _, path in spans.values()]
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
    direct = sorted(path for path in folder.iterdir() if (path.name.endswith(SUFFIXES) and path.is_file()))
    files = direct or sorted(
        path
        for path in folder.rglob("*")
        if (path.name.endswith(SUFFIXES) and path.is_file()) and ".laptime" not in path.parts
    )
    if not files:
        raise NoTraces(
            f"there is no trace in {folder}",
            why=f"no file in it ends in {' or '.join(SUFFIXES)}",
            next="profile the script, or name one trace file",
        )
    return files


TOGETHER = 10  # seconds within which ranks without numbers write their files
_SILENT = tuple(suffix for suffixes in reader.OTHERS for suffix in suffixes)
"""Files that do not say whose they are."""
_NUMBER = re.compile(r"\d{4,}")
_WRITTEN = re.compile(r"(?<!\d)(\d{10})(\d{3}|\d{6}|\d{9})?(?!\d)")
"""A time since 1970 in seconds, milliseconds, microseconds or nanoseconds."""


class _Identity(NamedTuple):
    """The job of a file, as the file shows it."""

    path: Path
    rank: int | None  # as the file states it, else its name; None unknown
    stated: tuple[object, ...]  # the job that the file states; () without
    shape: str  # its path without rank, times and process ids
    written: int | None  # seconds since 1970, if the name tells them


class Jobs(NamedTuple):
    """Files of each job, that of most ranks first, and those that are no traces."""

    jobs: list[list[Path]]
    others: list[Path]


def apart(paths: Sequence[Path]) -> Jobs:
    """The jobs that these files belong to; each keeps the order of the files."""
    identities, others = list[_Identity](), list[Path]()
    for path in paths:
        try:
            identities.append(_identity(path))
        except UsageError:
            others.append(path)
    stating = {identity.shape: identity.stated for identity in identities if identity.stated}
    groups = defaultdict[tuple[object, ...], list[_Identity]](list)
    for each in identities:
        stated = each.stated or stating.get(each.shape, ())
        groups[stated or ("named", each.shape, each.rank is not None)].append(each)
    jobs = [job for key, group in groups.items() for job in _without_twins(_of_group(key, group))]
    order = {path: place for place, path in enumerate(paths)}
    found = [sorted((each.path for each in job), key=order.__getitem__) for job in jobs]
    return Jobs(sorted(found, key=lambda job: (-len(job), order[job[0]])), others)


def rank_of(path: Path) -> int | None:
    """The rank that a file or its name states; None if neither does, or it is no trace."""
    try:
        return _identity(path).rank
    except UsageError:
        return None


def _identity(path: Path) -> _Identity:
    """Read the identity from a file and its name. Raises UsageError: it is no trace."""
    if path.name.endswith(SUFFIX):
        return _Identity(path, None, ("session", path.parent), "", None)
    distributed = {} if path.name.endswith(_SILENT) else reader.head(path).get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    rank, world = whole(distributed.get("rank")), whole(distributed.get("world_size"))
    if rank is None:
        rank = rank_in(path.name)
    if rank is None:
        rank = rank_in(path.parent.name)
    stated = ("stated", world, distributed.get("backend"), distributed.get("nccl_version"))
    written = _WRITTEN.search(path.name)
    return _Identity(
        path,
        rank,
        stated if world and world > 1 else (),
        _NUMBER.sub("*", without_rank(str(path))),
        int(written[1]) if written else None,
    )


def _of_group(key: tuple[object, ...], group: list[_Identity]) -> Iterable[list[_Identity]]:
    """The jobs in files that state the same one, or whose names are alike."""
    if key[0] == "session" or len({each.rank for each in group}) == len(group):
        return [group]
    if key[0] == "stated":
        by_shape = defaultdict[str, list[_Identity]](list)
        for each in group:
            by_shape[each.shape].append(each)
        return by_shape.values()
    if any(each.rank is not None for each in group):
        return [group]
    jobs = list[list[_Identity]]()
    for each in sorted(group, key=lambda each: each.written or 0):
        before = jobs[-1][-1].written if jobs else None
        if before and each.written and each.written - before <= TOGETHER:
            jobs[-1].append(each)
        else:
            jobs.append([each])
    return jobs


def _without_twins(jobs: Iterable[list[_Identity]]) -> Iterable[list[_Identity]]:
    """The n-th files of all ranks belong together."""
    for job in jobs:
        number = defaultdict[int, int](int)
        parts = defaultdict[int, list[_Identity]](list)
        for each in job:
            parts[number[each.rank] if each.rank is not None else 0].append(each)
            if each.rank is not None:
                number[each.rank] += 1
        yield from parts.values()
