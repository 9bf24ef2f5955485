"""Where runs lie, and how a file gets there whole or not at all.

.laptime/
  .gitignore                        `*`: results stay out of commits unless asked for
  runs/2026-08/
    20260801-142501-337-9f3a1c.json       a finished run (.json.gz above 1 MB)
    20260801-143010-002-77e0b4.jsonl      a journal: running now, or interrupted
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

SUFFIXES = (".json", ".json.gz", ".jsonl")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NOT_FOR_GIT = "# Measurements belong to the machine they were taken on.\n*\n"


def home() -> Path:
    """The folder of all runs: $LAPTIME_HOME, or `.laptime` in the current folder."""
    return Path(os.environ.get("LAPTIME_HOME") or ".laptime")


@contextmanager
def standing_in(other: Path) -> Iterator[None]:
    """Make another folder that of all runs, for what only reads them."""
    before = os.environ.get("LAPTIME_HOME")
    os.environ["LAPTIME_HOME"] = str(other)
    try:
        yield
    finally:
        del os.environ["LAPTIME_HOME"]
        os.environ |= {"LAPTIME_HOME": before} if before is not None else {}


def new_id() -> str:
    """A fresh run id: UTC time to the millisecond, so that names sort by age, and a random tail."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"[:-3] + f"-{secrets.token_hex(3)}"


def is_id(text: str) -> bool:
    """Whether a text can be a run id, which is a file name: no path separator, no dot."""
    return _ID.fullmatch(text) is not None


def id_of(path: Path) -> str:
    """The run id that a file's name tells."""
    return path.name.partition(".")[0]


def make(root: Path) -> None:
    """Make a store if there is none. Raises OSError: it cannot be made."""
    if not root.exists():
        root.mkdir(parents=True, exist_ok=True)
        # Only in a folder of laptime's own making: LAPTIME_HOME may name one that is under git.
        (root / ".gitignore").write_text(_NOT_FOR_GIT)


def month_of(run_id: str, root: Path) -> Path:
    """The folder under `root` that a run belongs in, made when missing. Raises OSError: it cannot be made."""
    make(root)
    month = f"{run_id[:4]}-{run_id[4:6]}" if run_id[:6].isdigit() else "undated"
    folder = root / "runs" / month
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` in `path` so that a reader, a crash or a full disk never leaves half of it there.

    Anything but a regular file (a pipe, /dev/stdout) is written in place; a link is followed.
    Raises OSError: it could not be written; what `path` held before is untouched."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # "x" and not tempfile: the file gets the permissions that the user's umask asks for.
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
