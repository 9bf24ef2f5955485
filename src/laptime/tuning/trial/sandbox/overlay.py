"""A folder that lies over the file system: what is written goes there, and is read from there.

What was never written is read from where it is. What was removed is gone for who looks through the overlay,
and stays where it is. Nothing here is redirected itself: callers hold `alone` around every call.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from laptime.tuning.trial.messages import TEMPORARY

SYSTEM = ("/dev/", "/proc/", "/sys/")
"""What lies there is no file of the user's."""
CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name folders which hold nothing that cannot be made again."""


class Overlay:
    """Paths as the script means them, and where they are kept.

    Attributes:
        folder: the folder. written: what the script has written, as it was named first.
    """

    def __init__(self, folder: str, free: Iterable[str] = (), mine: Iterable[str] = ()) -> None:
        """`free`: further folders that are let through. `mine`: the user's, though they be temporary."""
        self.folder = os.path.realpath(folder)
        self.written: dict[str, str] = {}
        self.gone: set[str] = set()
        self._own = _folders([self.folder, *free])
        home = os.path.expanduser("~")  # noqa: PTH111
        caches = [os.environ[name] for name in CACHES if os.environ.get(name)]
        caches += [os.path.join(home, name) for name in (".cache", ".triton", ".nv")]  # noqa: PTH118
        self._free = _folders([os.environ.get(TEMPORARY, tempfile.gettempdir()), "/dev/shm", *caches])  # noqa: S108
        self._mine = tuple(
            each for each in _folders(mine) if not any(one.startswith(each) for one in self._free)
        )
        self._inside = threading.local()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What is done inside is ours."""
        self._inside.depth = getattr(self._inside, "depth", 0) + 1
        try:
            yield
        finally:
            self._inside.depth -= 1

    @property
    def is_ours(self) -> bool:
        """Whether this thread is inside `alone`."""
        return bool(getattr(self._inside, "depth", 0))

    def absolute(self, path: Any) -> str | None:
        """The whole path; None for what is let through: descriptors, devices, temporary files, caches."""
        whole = named(path)
        return None if whole is None or whole.startswith(SYSTEM) or self.is_free(whole) else whole

    def is_free(self, whole: str) -> bool:
        """Whether a path lies where anything may be written; links are followed."""
        real = os.path.realpath(whole) + os.sep
        if real.startswith(self._own):
            return True
        return real.startswith(self._free) and not real.startswith(self._mine)

    def over(self, whole: str) -> str:
        """Where the folder keeps what the script knows by this path."""
        return self.folder + os.sep + whole.lstrip(os.sep)

    def is_gone(self, whole: str) -> bool:
        """Whether the script has removed it, or a folder that it was in."""
        while self.gone:
            if whole in self.gone:
                return True
            upper = os.path.dirname(whole)  # noqa: PTH120
            if upper == whole:
                break
            whole = upper
        return False

    def exists(self, whole: str) -> bool:
        """Whether the script sees something there."""
        return os.path.lexists(self.over(whole)) or (os.path.lexists(whole) and not self.is_gone(whole))

    def reading(self, path: Any) -> Any:
        """The path to read from instead. Of what is gone it is one where nothing is."""
        if not self.written and not self.gone:
            return path
        whole = named(path)
        if whole is None or whole.startswith((*SYSTEM, *self._own)):
            return path
        own = self.over(whole)
        if os.path.isdir(own) and os.path.isdir(whole) and not self.is_gone(whole):  # noqa: PTH112
            return path  # one folder in both: its names are asked for with `names`
        return own if os.path.lexists(own) or self.is_gone(whole) else path

    def writing(self, path: Any, *, keeps: bool = False, new: bool = False) -> Any:
        """The path to write to instead; with `keeps` what is there is copied first.

        Raises:
            FileExistsError: `new`, and the script sees something there.
        """
        whole = self.absolute(path)
        if whole is None:
            return path
        own = self.over(whole)
        if new and self.exists(whole):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
        if os.path.isdir(whole) and not self.is_gone(whole):  # noqa: PTH112
            return path  # opening it fails as it would
        self._parents(whole)
        if keeps and not os.path.lexists(own) and not self.is_gone(whole) and os.path.lexists(whole):
            shutil.copy2(whole, own)
        self.written.setdefault(whole, os.fsdecode(path))
        return own

    def _parents(self, whole: str) -> None:
        """The folder that something is written into, if the script sees one; else the system says so."""
        upper = os.path.dirname(whole)  # noqa: PTH120
        if os.path.isdir(upper) and not self.is_gone(upper):  # noqa: PTH112
            os.makedirs(self.over(upper), exist_ok=True)  # noqa: PTH103

    def remove(self, path: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Remove a file or folder, for the script alone."""
        whole = self.absolute(path)
        if whole is None:
            return original(path, *args, **kwargs)
        own = self.over(whole)
        is_below = os.path.lexists(whole) and not self.is_gone(whole)
        if original.__name__ == "rmdir" and is_below and self.names(whole):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fsdecode(path))
        if os.path.lexists(own) or not is_below:
            original(own, *args, **kwargs)
        if is_below:
            self.gone.add(whole)
        self.written.pop(whole, None)
        return None

    def move(self, source: Any, target: Any, original: Callable[..., Any]) -> Any:
        """Rename: what is the user's is copied, and gone for the script."""
        whole = self.absolute(source)
        moved = source
        if whole is not None:
            moved = self.over(whole)
            if not os.path.lexists(moved) and self.exists(whole):
                self._parents(whole)
                (shutil.copytree if os.path.isdir(whole) else shutil.copy2)(whole, moved)  # noqa: PTH112
        aim = self.writing(target)
        try:
            made = original(moved, aim)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a temporary file that comes from another disk
                raise
            made = shutil.move(moved, aim)
        if whole is not None:
            self.written.pop(whole, None)
            if os.path.lexists(whole):
                self.gone.add(whole)
        return made

    def make(self, path: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a folder, unless the script sees something there."""
        whole = self.absolute(path)
        if whole is None:
            return original(path, *args, **kwargs)
        if self.exists(whole):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
        self._parents(whole)
        made = original(self.over(whole), *args, **kwargs)
        self.written.setdefault(whole, os.fsdecode(path))
        return made

    def names(self, whole: str) -> list[str]:
        """What the script sees in a folder."""
        own = self.over(whole)
        gone = self.is_gone(whole)
        below = os.listdir(whole) if os.path.isdir(whole) and not gone else []  # noqa: PTH208, PTH112
        above = os.listdir(own) if os.path.isdir(own) else []  # noqa: PTH208, PTH112
        kept = [name for name in below if not self.is_gone(whole.rstrip(os.sep) + os.sep + name)]
        return [*kept, *(name for name in above if name not in kept)]

    def is_mixed(self, whole: str) -> bool:
        """Whether a folder's names differ from those on disk."""
        if os.path.isdir(self.over(whole)) or self.is_gone(whole):  # noqa: PTH112
            return True
        return any(each.startswith(whole.rstrip(os.sep) + os.sep) for each in self.gone)

    def files(self) -> list[str]:
        """Files that were written, as the script named them, in order."""
        return [name for whole, name in self.written.items() if os.path.isfile(self.over(whole))]  # noqa: PTH113


def named(path: Any) -> str | None:
    """A whole path; None for a descriptor and for what is no path."""
    if isinstance(path, int) or path is None:
        return None
    try:
        return os.path.abspath(os.fsdecode(path))  # noqa: PTH100, links stay what they are
    except TypeError:
        return None


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple({os.path.realpath(each).rstrip(os.sep) + os.sep for each in paths})
