"""A script's writes go to a folder of their own: a trial never overwrites what is the user's.

The folder lies over the file system (`overlay`). Temporary files, caches (~/.cache), devices and the trial's
own folder are let through.

    redirected   open, io.open, os.open and with them pathlib, numpy.save and logging; renaming, removing,
                 folders, modes and times of files; os.stat and with it os.path; os.listdir and os.scandir;
                 shutil; torch.save and torch.load with a path; safetensors.torch.save_file
    refused      changing an existing file in any other way, as far as Python's audit events tell
    not covered  files that extensions open by themselves (h5py, sqlite3, cv2.imwrite), names relative to a
                 folder's descriptor, and programs that the script starts
"""

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
from laptime.tuning.trial.overlay import SYSTEM, Overlay, whole_path

REFUSED = "laptime keeps the user's files safe: a trial must not change"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.truncate": 1, "os.chmod": 1}
"""Audit events with how many of their first arguments are paths."""
_SUPPORTS: tuple[Any, ...] = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks)
_DESCRIPTORS = ("dir_fd", "src_dir_fd", "dst_dir_fd")


def install(folder: str) -> Callable[[], list[str]]:
    """Redirect from now on. The result gives everything back and lists the files that were written.

    The user's own folder (the working directory and the script's) is redirected even if it is temporary.
    """
    plan = TrialPlan.from_environment()
    scripts = [word for word in sys.argv[:3] if word.endswith(".py") and os.path.isfile(word)]  # noqa: PTH113
    users = [os.getcwd(), *(os.path.dirname(os.path.abspath(script)) for script in scripts)]  # noqa: PTH100, PTH109, PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    overlay = Overlay(folder, [plan.folder] if plan else [], users)
    for path, other in plan.sources.items() if plan else ():
        if not path.endswith(".py"):  # those are read by imports (`program.install`)
            overlay.put(path, other)
    sandbox = WriteSandbox(overlay)
    sandbox.install()

    def undo() -> list[str]:
        sandbox.undo()
        return sandbox.overlay.files()

    return undo


class WriteSandbox:
    """The functions that are wrapped.

    Each method is called with the original function and its arguments, named as that function names them."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self._originals: list[tuple[Any, str, Any]] = []
        self._is_active = False
        self._import_hooks = [
            WhenImported("torch", self._wrap_torch),
            WhenImported("safetensors.torch", self._wrap_safetensors),
        ]

    def install(self) -> None:
        self._is_active = True
        wrapped: list[tuple[Any, tuple[str, ...], Callable[..., Any]]] = [
            (builtins, ("open",), self._open),
            (io, ("open",), self._open),
            (os, ("open",), self._os_open),
            (os, ("remove", "unlink", "rmdir"), self.overlay.remove),
            (shutil, ("rmtree",), self.overlay.remove),
            (os, ("rename", "replace"), self.overlay.move),
            (os, ("mkdir",), self.overlay.make_folder),
            (os, ("stat", "lstat", "access", "readlink", "chdir"), self._read),
            (os, ("truncate", "chmod", "utime", "chown", "setxattr", "mkfifo", "mknod"), self._change),
            (os, ("link", "symlink"), self._link),
            (os, ("listdir",), self._listdir),
            (os, ("scandir",), self._scandir),
        ]
        for owner, names, method in wrapped:
            for name in names:
                self._wrap(owner, name, method)
        for import_hook in self._import_hooks:
            import_hook.install()
        sys.addaudithook(self._audit)

    def undo(self) -> None:
        """Put every function back; the audit hook, which cannot be removed, does nothing any more."""
        self._is_active = False
        for import_hook in self._import_hooks:
            import_hook.remove()
        for owner, name, original in reversed(self._originals):
            for supports in _SUPPORTS:
                supports.discard(getattr(owner, name))
            setattr(owner, name, original)
        self._originals = []

    def _wrap(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        overlay = self.overlay

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            has_descriptor = any(kwargs.get(keyword) is not None for keyword in _DESCRIPTORS)
            if not self._is_active or overlay.is_inside or has_descriptor:
                return original(*args, **kwargs)
            with overlay.inside():
                return method(original, *args, **kwargs)

        for supports in _SUPPORTS:
            if original in supports:
                supports.add(wrapper)
        self._originals.append((owner, name, original))
        setattr(owner, name, wrapper)

    # Files.

    def _open(self, original: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if not set(mode) & set("wax+"):
            return original(self.overlay.reading(file), mode, *args, **kwargs)
        path = self.overlay.writing(file, copies="w" not in mode, new="x" in mode)
        return original(path, mode, *args, **kwargs)

    def _os_open(self, original: Any, path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        if not flags & _WRITES:
            return original(self.overlay.reading(path), flags, *args, **kwargs)
        new = bool(flags & os.O_CREAT and flags & os.O_EXCL)
        path = self.overlay.writing(path, copies=not flags & os.O_TRUNC, new=new)
        return original(path, flags, *args, **kwargs)

    def _read(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self.overlay.reading(path), *args, **kwargs)

    def _change(self, original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        whole = self.overlay.redirect(path)
        if whole is not None and self.overlay.is_users_folder(whole):
            return None  # a folder of the user's stays as it is
        if whole is not None and not self.overlay.exists(whole) and original.__name__ != "mkfifo":
            return original(self.overlay.over(whole), *args, **kwargs)
        return original(self.overlay.writing(path, copies=True), *args, **kwargs)

    def _link(self, original: Any, src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
        whole = self.overlay.redirect(dst)
        if whole is None:
            return original(src, dst, *args, **kwargs)
        base = os.path.dirname(whole) if original.__name__ == "symlink" else os.getcwd()  # noqa: PTH109, PTH120
        source = self.overlay.reading(os.path.join(base, os.fsdecode(src)))  # noqa: PTH118
        target = self.overlay.writing(dst, new=True)
        if original.__name__ == "link":  # a second name of the user's file would be written through
            return shutil.copy2(source, target) and None
        return original(source, target, *args, **kwargs)

    # Folders.

    def _listdir(self, original: Any, path: Any = ".") -> Any:
        whole = self._find_merged(path)
        return original(path) if whole is None else self.overlay.names(whole)

    def _scandir(self, original: Any, path: Any = ".") -> Any:
        whole = self._find_merged(path)
        return original(path) if whole is None else _Entries(self._entries(original, path, whole))

    def _find_merged(self, path: Any) -> str | None:
        """The whole path of a folder whose names differ from those on disk, else None.
        Raises FileNotFoundError: the script sees no folder there."""
        whole = whole_path(path)
        if whole is None or isinstance(path, bytes) or not self.overlay.is_merged(whole):
            return None
        if not os.path.isdir(self.overlay.over(whole)):  # noqa: PTH112
            os.stat(self.overlay.reading(whole))  # noqa: PTH116
        return whole

    def _entries(self, original: Any, path: Any, whole: str) -> list[Any]:
        names, over = set(self.overlay.names(whole)), self.overlay.over(whole)
        entries = {entry.name: entry for entry in (original(over) if os.path.isdir(over) else ())}  # noqa: PTH112
        if self.overlay.is_users_folder(whole):
            below = {entry.name: entry for entry in original(path)}
            # A folder that is on both levels is the one below: its own names are asked for by its path.
            is_folder = {name for name, entry in below.items() if entry.is_dir()}
            entries = below | {name: entry for name, entry in entries.items() if name not in is_folder}
        return [entry for name, entry in entries.items() if name in names]

    # Libraries.

    def _wrap_torch(self) -> None:
        import torch

        serialization: Any = torch.serialization
        writer = getattr(serialization, "_open_zipfile_writer_file", None)
        if writer is not None:  # what torch.save opens by itself, whatever name the script has for it
            self._wrap(writer, "__init__", self._open_writer)
        for owner in (torch, serialization):
            if writer is None:
                self._wrap(owner, "save", self._save)
            self._wrap(owner, "load", self._load)  # a memory-mapped file is opened by torch

    def _wrap_safetensors(self) -> None:
        self._wrap(sys.modules["safetensors.torch"], "save_file", self._save_tensors)

    def _open_writer(self, original: Any, writer: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        original(writer, self.overlay.writing(name), *args, **kwargs)

    def _save(self, original: Any, obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        return original(obj, self.overlay.writing(f), *args, **kwargs)

    def _load(self, original: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self.overlay.reading(f), *args, **kwargs)

    def _save_tensors(self, original: Any, tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        return original(tensors, self.overlay.writing(filename), *args, **kwargs)

    # Everything else.

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse an audit event that would change a file of the user."""
        if not self._is_active or (event != "open" and event not in _CHANGING) or self.overlay.is_inside:
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & _WRITES):
            return
        with self.overlay.inside():
            for path in args[: _CHANGING.get(event, 1)]:
                whole = whole_path(_beside(path, args)) if event != "open" else whole_path(path)
                if whole is None or whole.startswith(SYSTEM) or "__pycache__" in whole:
                    continue
                if os.path.lexists(whole) and not os.path.isdir(whole) and not self.overlay.is_free(whole):  # noqa: PTH112
                    raise PermissionError(f"{REFUSED} {whole}")


def _beside(path: Any, args: tuple[Any, ...]) -> Any:
    """A path that is relative to a folder's descriptor, which events tell after their paths."""
    descriptor = next((value for value in args[1:] if isinstance(value, int) and value > 2), None)
    if descriptor is None or not isinstance(path, (str, bytes)) or os.path.isabs(path):  # noqa: PTH117
        return path
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), os.fsdecode(path))  # noqa: PTH115, PTH118
    except OSError:
        return path


class _Entries:
    """The result of os.scandir: an iterator that can be closed."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Give no more."""
        self._entries = iter(())
