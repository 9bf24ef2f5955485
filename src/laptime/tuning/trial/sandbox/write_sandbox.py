"""A script's writes go to a folder of their own: a trial never overwrites what is the user's.

The folder lies over the file system (`overlay`). Temporary files, caches (~/.cache), devices and the trial's
own folder are let through.

    redirected   open, io.open, os.open and with them pathlib, numpy.save and logging; renaming, removing,
                 folders, modes and times of files; os.stat and with it os.path; os.listdir and os.scandir;
                 shutil; torch.save and torch.load with a path; safetensors.torch.save_file
    refused      changing an existing file on another way, as far as Python's audit events tell of it
    not covered  files that extensions open by themselves (h5py, sqlite3, cv2.imwrite), names relative to a
                 folder's descriptor, and programs that the script starts
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.tuning.trial.messages import TrialPlan
from laptime.tuning.trial.sandbox.overlay import SYSTEM, Overlay, named

REFUSED = "laptime keeps the user's files safe: a trial must not change"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1}
"""Audit events with how many of their first arguments are paths."""
_SUPPORTS: tuple[Any, ...] = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
_DESCRIPTORS = ("dir_fd", "src_dir_fd", "dst_dir_fd")


def install(folder: str) -> Callable[[], list[str]]:
    """Redirect from now on. What is returned gives everything back and lists the files that were written.

    The user's own folder (the working directory and the script's) is redirected even where it is temporary.
    """
    plan = TrialPlan.from_environment()
    words = [word for word in sys.argv[:3] if word.endswith(".py") and os.path.isfile(word)]  # noqa: PTH113
    mine = [os.getcwd(), *(os.path.dirname(os.path.abspath(word)) for word in words)]  # noqa: PTH100, PTH109, PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    redirected = WriteSandbox(Overlay(folder, [plan.folder] if plan else [], mine))
    redirected.install()

    def undo() -> list[str]:
        redirected.undo()
        return redirected.overlay.files()

    return undo


class WriteSandbox:
    """The functions that are wrapped."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self._originals: list[tuple[Any, str, Any]] = []
        self._is_active = False
        self._watches = [
            WhenImported("torch", self._torch),
            WhenImported("safetensors.torch", self._safetensors),
        ]

    def install(self) -> None:
        """Wrap."""
        self._is_active = True
        for owner in (builtins, io):
            self._put(owner, "open", self._open)
        self._put(os, "open", self._os_open)
        for name in ("remove", "unlink", "rmdir"):
            self._put(os, name, self._remove)
        self._put(shutil, "rmtree", self._rmtree)
        for name in ("rename", "replace"):
            self._put(os, name, self._move)
        self._put(os, "mkdir", self._make)
        for name in ("stat", "lstat", "access", "readlink", "chdir"):
            self._put(os, name, self._read)
        for name in ("truncate", "chmod", "utime", "chown", "setxattr", "mkfifo", "mknod"):
            self._put(os, name, self._change)
        for name in ("link", "symlink"):
            self._put(os, name, self._link)
        self._put(os, "listdir", self._listdir)
        self._put(os, "scandir", self._scandir)
        for watch in self._watches:
            watch.install()
        sys.addaudithook(self._heard)

    def undo(self) -> None:
        """Every function is what it was; the audit hook, which cannot be removed, does nothing any more."""
        self._is_active = False
        for watch in self._watches:
            watch.remove()
        for owner, name, original in reversed(self._originals):
            for supports in _SUPPORTS:
                supports.discard(getattr(owner, name))
            setattr(owner, name, original)
        self._originals = []

    def _put(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        ours, overlay = make(original), self.overlay

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            has_folder = any(kwargs.get(each) is not None for each in _DESCRIPTORS)
            if not self._is_active or overlay.is_ours or has_folder:
                return original(*args, **kwargs)
            with overlay.alone():
                return ours(*args, **kwargs)

        for supports in _SUPPORTS:
            if original in supports:
                supports.add(wrapper)
        self._originals.append((owner, name, original))
        setattr(owner, name, wrapper)

    # Files.

    def _open(self, original: Any) -> Any:
        def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wax+"):
                return original(self.overlay.reading(file), mode, *args, **kwargs)
            path = self.overlay.writing(file, keeps="w" not in mode, new="x" in mode)
            return original(path, mode, *args, **kwargs)

        return open_

    def _os_open(self, original: Any) -> Any:
        def open_(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            if not flags & _WRITES:
                return original(self.overlay.reading(path), flags, *args, **kwargs)
            new = bool(flags & os.O_CREAT and flags & os.O_EXCL)
            path = self.overlay.writing(path, keeps=not flags & os.O_TRUNC, new=new)
            return original(path, flags, *args, **kwargs)

        return open_

    def _remove(self, original: Any) -> Any:
        def remove(path: Any, **kwargs: Any) -> Any:
            return self.overlay.remove(path, original)

        return remove

    def _rmtree(self, original: Any) -> Any:
        def rmtree(path: Any, *args: Any, **kwargs: Any) -> Any:
            return self.overlay.remove(path, original, *args, **kwargs)

        return rmtree

    def _move(self, original: Any) -> Any:
        def move(src: Any, dst: Any, **kwargs: Any) -> Any:
            return self.overlay.move(src, dst, original)

        return move

    def _make(self, original: Any) -> Any:
        def make(path: Any, *args: Any, **kwargs: Any) -> Any:
            return self.overlay.make(path, original, *args, **kwargs)

        return make

    def _read(self, original: Any) -> Any:
        def read(path: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self.overlay.reading(path), *args, **kwargs)

        return read

    def _change(self, original: Any) -> Any:
        def change(path: Any, *args: Any, **kwargs: Any) -> Any:
            whole = self.overlay.absolute(path)
            if whole is not None and os.path.isdir(whole) and not self.overlay.is_gone(whole):  # noqa: PTH112
                return None  # a folder of the user's stays as it is
            if whole is not None and not self.overlay.exists(whole) and original.__name__ != "mkfifo":
                return original(self.overlay.over(whole), *args, **kwargs)
            return original(self.overlay.writing(path, keeps=True), *args, **kwargs)

        return change

    def _link(self, original: Any) -> Any:
        def link(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            whole = self.overlay.absolute(dst)
            if whole is None:
                return original(src, dst, *args, **kwargs)
            base = os.path.dirname(whole) if original.__name__ == "symlink" else os.getcwd()  # noqa: PTH109, PTH120
            source = self.overlay.reading(os.path.join(base, os.fsdecode(src)))  # noqa: PTH118
            aim = self.overlay.writing(dst, new=True)
            if original.__name__ == "link":  # a second name of the user's file would be written through
                return shutil.copy2(source, aim) and None
            return original(source, aim, *args, **kwargs)

        return link

    # Folders.

    def _listdir(self, original: Any) -> Any:
        def listdir(path: Any = ".") -> Any:
            whole = named(path)
            if whole is None or isinstance(path, bytes) or not self.overlay.is_mixed(whole):
                return original(path)
            self._folder(whole)
            return self.overlay.names(whole)

        return listdir

    def _scandir(self, original: Any) -> Any:
        def scandir(path: Any = ".") -> Any:
            whole = named(path)
            if whole is None or isinstance(path, bytes) or not self.overlay.is_mixed(whole):
                return original(path)
            self._folder(whole)
            return _Entries(self._entries(original, path, whole))

        return scandir

    def _folder(self, whole: str) -> None:
        """Raises FileNotFoundError where the script sees no folder."""
        if not os.path.isdir(self.overlay.over(whole)):  # noqa: PTH112
            os.stat(self.overlay.reading(whole))  # noqa: PTH116

    def _entries(self, original: Any, path: Any, whole: str) -> list[Any]:
        names = set(self.overlay.names(whole))
        own = self.overlay.over(whole)
        found = {each.name: each for each in (original(own) if os.path.isdir(own) else ())}  # noqa: PTH112
        if os.path.isdir(whole) and not self.overlay.is_gone(whole):  # noqa: PTH112
            below = {each.name: each for each in original(path)}
            found = {
                **below,
                **{name: each for name, each in found.items() if not _is_in_both(below.get(name))},
            }
        return [each for name, each in found.items() if name in names]

    # Libraries.

    def _torch(self) -> None:
        import torch

        serialization: Any = torch.serialization
        writer = getattr(serialization, "_open_zipfile_writer_file", None)
        if writer is not None:  # what torch.save opens by itself, whatever name the script has for it
            self._put(writer, "__init__", self._writer)
        else:
            for owner in (torch, serialization):
                self._put(owner, "save", self._saver)
        for owner in (torch, serialization):  # a memory-mapped file is opened by torch
            self._put(owner, "load", self._loader)

    def _writer(self, original: Any) -> Any:
        def __init__(self_: Any, name: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self_, self.overlay.writing(name), *args, **kwargs)

        return __init__

    def _loader(self, original: Any) -> Any:
        def load(f: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self.overlay.reading(f), *args, **kwargs)

        return load

    def _saver(self, original: Any) -> Any:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            return original(obj, self.overlay.writing(f) if named(f) else f, *args, **kwargs)

        return save

    def _safetensors(self) -> None:
        self._put(sys.modules["safetensors.torch"], "save_file", self._tensors)

    def _tensors(self, original: Any) -> Any:
        def save_file(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
            return original(tensors, self.overlay.writing(filename), *args, **kwargs)

        return save_file

    # What goes another way.

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit event: refuse to change what is the user's."""
        if not self._is_active or (event != "open" and event not in _CHANGING) or self.overlay.is_ours:
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & _WRITES):
            return
        with self.overlay.alone():
            for path in args[: _CHANGING.get(event, 1)]:
                whole = named(_beside(path, args)) if event != "open" else named(path)
                if whole is None or whole.startswith(SYSTEM) or "__pycache__" in whole:
                    continue
                if os.path.lexists(whole) and not os.path.isdir(whole) and not self.overlay.is_free(whole):  # noqa: PTH112
                    raise PermissionError(f"{REFUSED} {whole}")


def _beside(path: Any, args: tuple[Any, ...]) -> Any:
    """A path that is relative to a folder's descriptor, which events tell after their paths."""
    folder = next((each for each in args[1:] if isinstance(each, int) and each > 2), None)
    if folder is None or not isinstance(path, (str, bytes)) or os.path.isabs(path):  # noqa: PTH117
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))  # noqa: PTH115, PTH118
    except OSError:
        return path


def _is_in_both(entry: Any) -> bool:
    """A folder that is in the overlay, too, is the one below: what is in it is asked for by its name."""
    return entry is not None and bool(entry.is_dir())


class _Entries:
    """What os.scandir gives: an iterator that can be closed."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Give no more."""
        self._entries = iter(())
