"""A folder that lies over the file system: what is written goes there, and is read from there.

What was never written is read from where it is. What was removed is gone for the script, and stays where it
is. Nothing here is redirected itself: callers hold `inside` around every call."""

import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from laptime.tuning.trial.messages import TEMPORARY

SYSTEM = ("/dev/", "/proc/", "/sys/")  # no files of the user lie here
CACHES = ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name folders whose content can be made again."""


class Overlay:
    """Paths as the script means them, and where they are kept. folder: the folder. written: what the script
    has written: its own name for each whole path. gone: whole paths that it has removed."""

    def __init__(self, folder: str, free: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """`free`: further folders to let through. `users`: the user's, even if they are temporary."""
        self.folder = os.path.realpath(folder)
        self.written: dict[str, str] = {}
        self.gone: set[str] = set()
        # Another rank may have written what this one reads.
        self._is_shared = int(os.environ.get("WORLD_SIZE") or 1) > 1
        self._always_free = _folders([self.folder, *free])
        home = os.path.expanduser("~")  # noqa: PTH111
        caches = [os.environ[name] for name in CACHES if os.environ.get(name)]
        caches += [os.path.join(home, name) for name in (".cache", ".triton", ".nv")]  # noqa: PTH118
        self._free = _folders([os.environ.get(TEMPORARY, tempfile.gettempdir()), "/dev/shm", *caches])  # noqa: S108
        self._users = tuple(
            folder for folder in _folders(users) if not any(free.startswith(folder) for free in self._free)
        )
        self._inside = threading.local()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Calls of this thread are the overlay's own: they are not redirected."""
        self._inside.depth = getattr(self._inside, "depth", 0) + 1
        try:
            yield
        finally:
            self._inside.depth -= 1

    @property
    def is_inside(self) -> bool:
        """Whether this thread is within `inside`."""
        return bool(getattr(self._inside, "depth", 0))

    def redirect(self, path: Any) -> str | None:
        """The whole path; None for what is let through: descriptors, devices, temporary files, caches."""
        whole = whole_path(path)
        return None if whole is None or whole.startswith(SYSTEM) or self.is_free(whole) else whole

    def is_free(self, whole: str) -> bool:
        """Whether a path lies where anything may be written; links are followed."""
        real = os.path.realpath(whole) + os.sep
        if real.startswith(self._always_free):
            return True
        return real.startswith(self._free) and not real.startswith(self._users)

    def over(self, whole: str) -> str:
        """Say where the folder keeps what the script knows by this path."""
        return self.folder + os.sep + whole.lstrip(os.sep)

    def is_gone(self, whole: str) -> bool:
        """Whether the script has removed it, or a folder that it was in."""
        return bool(self.gone) and not self.gone.isdisjoint({whole, *map(str, PurePath(whole).parents)})

    def exists(self, whole: str) -> bool:
        """Whether the script sees something there."""
        return os.path.lexists(self.over(whole)) or (os.path.lexists(whole) and not self.is_gone(whole))

    def is_users_folder(self, whole: str) -> bool:
        """Whether the user has a folder there, and the script still sees it."""
        return os.path.isdir(whole) and not self.is_gone(whole)  # noqa: PTH112

    def reading(self, path: Any) -> Any:
        """The path to read from instead. For a removed file that is a path where nothing exists."""
        if not (self.written or self.gone or self._is_shared):
            return path
        whole = whole_path(path)
        if whole is None or whole.startswith((*SYSTEM, *self._always_free)):
            return path
        over = self.over(whole)
        if os.path.isdir(over) and self.is_users_folder(whole):  # noqa: PTH112
            return path  # one folder on both levels: its names are asked for with `names`
        return over if os.path.lexists(over) or self.is_gone(whole) else path

    def writing(self, path: Any, *, copies: bool = False, new: bool = False) -> Any:
        """The path to write to instead; with `copies` what is there is copied first.
        Raises FileExistsError: `new`, and the script sees something there."""
        whole = self.redirect(path)
        if whole is None:
            return path
        over = self.over(whole)
        if new and self.exists(whole):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
        if self.is_users_folder(whole):
            return path  # opening it fails as it would
        self._make_parent(whole)
        if copies and not os.path.lexists(over) and not self.is_gone(whole) and os.path.lexists(whole):
            shutil.copy2(whole, over)
        self.written.setdefault(whole, os.fsdecode(path))
        return over

    def _make_parent(self, whole: str) -> None:
        """The folder that something is written into, if the script sees one; else the system says so."""
        parent = os.path.dirname(whole)  # noqa: PTH120
        if self.is_users_folder(parent):
            os.makedirs(self.over(parent), exist_ok=True)  # noqa: PTH103

    def put(self, whole: str, other: str) -> None:
        """The script finds a copy of another file there, as if it had written it."""
        over = self.over(whole)
        os.makedirs(os.path.dirname(over), exist_ok=True)  # noqa: PTH103, PTH120
        shutil.copyfile(other, over)
        self.written[whole] = whole

    def remove(self, original: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> Any:
        """Remove a file or folder, for the script alone."""
        whole = self.redirect(path)
        if whole is None:
            return original(path, *args, **kwargs)
        over = self.over(whole)
        is_below = os.path.lexists(whole) and not self.is_gone(whole)
        if original.__name__ == "rmdir" and is_below and self.names(whole):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), os.fsdecode(path))
        if os.path.lexists(over) or not is_below:
            original(over, *args, **kwargs)
        if is_below:
            self.gone.add(whole)
        self.written.pop(whole, None)
        return None

    def move(self, original: Callable[..., Any], src: Any, dst: Any, **kwargs: Any) -> Any:
        """Rename: what is the user's is copied, and gone for the script."""
        whole = self.redirect(src)
        moved = src
        if whole is not None:
            moved = self.over(whole)
            if not os.path.lexists(moved) and self.exists(whole):
                self._make_parent(whole)
                (shutil.copytree if os.path.isdir(whole) else shutil.copy2)(whole, moved)  # noqa: PTH112
        destination = self.writing(dst)
        try:
            result = original(moved, destination)
        except OSError as error:
            if error.errno != errno.EXDEV:  # a temporary file that comes from another disk
                raise
            result = shutil.move(moved, destination)
        if whole is not None:
            self.written.pop(whole, None)
            if os.path.lexists(whole):
                self.gone.add(whole)
        return result

    def make_folder(self, original: Callable[..., Any], path: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a folder, unless the script sees something there."""
        whole = self.redirect(path)
        if whole is None:
            return original(path, *args, **kwargs)
        if self.exists(whole):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
        self._make_parent(whole)
        result = original(self.over(whole), *args, **kwargs)
        self.written.setdefault(whole, os.fsdecode(path))
        return result

    def names(self, whole: str) -> list[str]:
        """Names that the script sees in a folder."""
        over = self.over(whole)
        below = os.listdir(whole) if self.is_users_folder(whole) else []  # noqa: PTH208
        above = os.listdir(over) if os.path.isdir(over) else []  # noqa: PTH208, PTH112
        visible = [name for name in below if not self.is_gone(whole.rstrip(os.sep) + os.sep + name)]
        return [*visible, *(name for name in above if name not in visible)]

    def is_merged(self, whole: str) -> bool:
        """Whether a folder's names differ from those on disk."""
        below = whole.rstrip(os.sep) + os.sep
        is_changed = os.path.isdir(self.over(whole)) or self.is_gone(whole)  # noqa: PTH112
        return is_changed or any(path.startswith(below) for path in self.gone)

    def files(self) -> list[str]:
        """Files that were written, as the script named them, in order."""
        return [name for whole, name in self.written.items() if os.path.isfile(self.over(whole))]  # noqa: PTH113


def whole_path(path: Any) -> str | None:
    """The absolute path; None for a file descriptor and for values that are no path."""
    if isinstance(path, int) or path is None:
        return None
    try:
        return os.path.abspath(os.fsdecode(path))  # noqa: PTH100, links stay what they are
    except TypeError:
        return None


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple({os.path.realpath(path).rstrip(os.sep) + os.sep for path in paths})
