"""The temporary folder of a session: gone when it ends; of one that was killed, when the next one begins.

It holds captured batches and states, gigabytes for a large model. The session holds a lock on a file in it,
and the system releases that lock when the process ends, in whatever way.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = "lock"
_YOUNG = 60.0
"""Age in seconds below which a folder may not be locked yet."""


@contextmanager
def work_folder(verb: str) -> Iterator[Path]:
    """A new folder for a session of this verb; folders of killed sessions are removed first."""
    prefix = f"laptime-{verb}-"
    _sweep(prefix)
    with (
        tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as work,
        (Path(work) / _LOCK).open("wb") as lock,
    ):
        with suppress(OSError):  # a file system without locks: nobody can take it, either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(work)


def _sweep(prefix: str) -> None:
    """Remove folders whose lock is nobody's. Those of others cannot be opened, and stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*/{_LOCK}"):
        with suppress(OSError):
            if path.parent.is_symlink() or time.time() - path.stat().st_mtime < _YOUNG:
                continue
            with path.open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)
