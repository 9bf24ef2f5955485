"""The user's files for other machines, by the hash of their content: packed here, unpacked once a node.

Of a git repository: what it tracks and what it does not ignore, as it is now, submodules included. Of any
other folder: all but hidden files, caches and virtual environments. What a request names goes along even if
git ignores it. Requests name files by the type `Path`, targets by the fields `target` and `targets`, and a
script or a module by `program`."""

import gzip
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, structs

from laptime.kit.errors import Unavailable, UsageError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.launch.git_worktree import Revision, git
from laptime.probes.machine import git_state
from laptime.store import cache
from laptime.targets import parse

LIMIT = 64 << 20  # bytes of all files
MOST = 100_000  # files: more are a home folder, or data
KEPT = 7 * 86400.0  # seconds that a node keeps code that nobody uses


class Ticket(Struct, frozen=True, tag="code"):
    """The code as a node is told of it before it asks for it."""

    sha256: str  # of the files
    folder: str  # where the user stands in it
    top: str  # where it lies on the head
    path: str  # the head's PYTHONPATH


class Bundle(NamedTuple):
    """Packed code."""

    ticket: Ticket
    packed: bytes
    names: dict[str | Path, str | Path]  # of what requests name, how a node finds it
    git: dict[str, Any]  # where the code is from, for the environment of a run
    sentence: str  # what is sent, for the user

    def relative(self, request: Any) -> Any:
        """The request with its files named as a node finds them."""

        def move(value: Any) -> Any:
            if isinstance(value, list):
                return [move(each) for each in value]
            return self.names.get(value, value) if isinstance(value, str | Path) else value

        return type(request)(**{name: move(it) for name, it in _fields(request).items()})


def pack(requests: Sequence[Struct]) -> Bundle | None:
    """The files of this machine that requests need; None if they name none.
    Raises UsageError: they are too large, or one is not there or lies elsewhere. TargetError: of a target."""
    found = [each for request in requests for each in _list_named(request)]
    paths = {value: _place(Path(text).expanduser()) for value, text, _ in found if text}
    base, top = Path.cwd(), _top()
    own = [text or folder.is_relative_to(top) for _, text, folder in found if folder]
    if not any(own):  # data, or nothing: no code goes with them
        if not paths:
            return None
        base = top = Path(os.path.commonpath([path.parent for path in paths.values()]))
    names: dict[str | Path, str | Path] = {}
    for value, text, _ in found:
        if text and (base != Path.cwd() or Path(text).expanduser().is_absolute()):
            there = os.path.relpath(paths[value], base)
            names[value] = Path(there) if isinstance(value, Path) else value.replace(text, there, 1)
    files, left_out = _choose(top, islice(_tree(top), MOST + 1) if any(own) else (), [*paths.values()])
    data = _archive(top, files)
    packed = gzip.compress(data, 1, mtime=0)
    ticket = Ticket(
        sha256=hashlib.sha256(data).hexdigest(),
        folder=base.relative_to(top).as_posix(),
        top=str(top),
        path=os.environ.get("PYTHONPATH", ""),
    )
    sentence = f"sending {count(len(files), 'file')} of {top}, {show(len(packed), 'B')}"
    state: dict[str, Any] = {**(git_state(top) or {}), "sent": ticket.sha256}
    if left_out:
        sentence, state["left_out"] = f"{sentence}; left out: {', '.join(left_out)}", left_out
    return Bundle(ticket, packed, names, state, sentence)


def _fields(request: Any) -> dict[str, Any]:
    """Those of a request, a `Struct` or a dataclass."""
    return structs.asdict(request) if isinstance(request, Struct) else vars(request)


def _list_named(request: Struct) -> Iterator[tuple[str | Path, str, Path | None]]:
    """Values that may name files: each, the file's name in it (""), and the folder of code that it names."""
    for name, values in _fields(request).items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, Path):
                yield value, str(value), None
            elif name == "program":
                found = Path(value).is_file()
                yield value, value if found else "", Path(value).resolve().parent if found else Path.cwd()
            elif name in ("target", "targets") and isinstance(value, str) and "://" not in value:
                with suppress(Unavailable):  # here; a node may have it
                    recipe = parse(value)
                    is_file = recipe.sha256 and recipe.kind != "module"
                    installed = recipe.folder is None or "site-packages" in recipe.folder.parts
                    yield value, recipe.source if is_file else "", None if installed else recipe.folder


def _place(path: Path) -> Path:
    """Where a file lies; it may itself be a link. Raises UsageError: there is none."""
    if not path.exists():
        raise UsageError(f"there is no file {path}", why="nothing was started", next=f"ls {path.parent}")
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def _top() -> Path:
    with suppress(UsageError, Unavailable):
        return Path(git("rev-parse", "--show-toplevel", what="no repository"))
    return Path.cwd()


def _tree(top: Path) -> Iterator[Path]:
    """The files of a folder; of a submodule that is not there, its folder."""
    if not (top / ".git").exists():
        for place, folders, names in os.walk(top):
            inner = [Path(place, name) for name in folders if name[0] != "." and name != "__pycache__"]
            folders[:] = [each.name for each in inner if not (each / "pyvenv.cfg").exists()]
            yield from (each for each in inner if each.is_symlink())
            yield from (Path(place, name) for name in names if name[0] != ".")
        return
    words = ("-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, git(*words, what=f"{top} cannot be listed").split("\0")):
        path = top / name
        if path.is_dir() and not path.is_symlink():
            yield from _tree(path) if (path / ".git").exists() else [path]
        elif os.path.lexists(path):  # git still knows what was deleted
            yield path


def _choose(top: Path, tree: Iterable[Path], asked: list[Path]) -> tuple[list[Path], list[str]]:
    """The files that are sent, and names of those that are not, with the reason.
    Raises UsageError: a named one lies elsewhere, or they are too large."""
    files = {*tree}
    for path in asked:
        if not path.is_relative_to(top):
            raise UsageError(
                f"{path} lies on this machine alone",
                why=f"{top} is what is sent to the others",
                next="start in a folder that holds it, or copy it there",
            )
        parts = [] if path.suffix == ".py" else path.parent.glob(f"{path.stem}.*")  # weights of a model
        for each in [path, *parts]:
            files.update(each.rglob("*") if each.is_dir() else [each])
    left_out = {path: why for path in sorted(files) if (why := _why_not(path, top))}
    files = {path for path in files if path not in left_out and (path.is_file() or path.is_symlink())}
    sizes = {path: path.stat().st_size for path in files}
    if (total := sum(sizes.values())) > LIMIT or len(files) > MOST:
        largest = sorted(files, key=lambda path: -sizes[path])[:3]
        named = [f"{path.relative_to(top)} ({show(sizes[path], 'B')})" for path in largest]
        raise UsageError(
            f"{top} has {count(len(files), 'file')} of {show(total, 'B')} to send",
            why=f"{show(LIMIT, 'B')} is the limit; the largest: {', '.join(named)}",
            next="name what no program needs in .gitignore, or start in a smaller folder",
        )
    return sorted(files), [f"{path.relative_to(top)} ({why})" for path, why in left_out.items()]


def _why_not(path: Path, top: Path) -> str:
    """Why a file is not sent; "" if it is."""
    if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(top.resolve())):
        return "a link to elsewhere"
    if path.is_dir():
        return "" if path.is_symlink() or any(path.iterdir()) else "a submodule that is not checked out"
    return "" if path.is_file() and os.access(path, os.R_OK) else "cannot be read"


def _archive(top: Path, files: Sequence[Path]) -> bytes:
    """The same bytes for the same files: no times, no owners. Links to folders stay links."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for path in files:
            entry, content = tarfile.TarInfo(path.relative_to(top).as_posix()), b""
            if path.is_dir():
                entry.type = tarfile.SYMTYPE
                entry.linkname = os.path.relpath(path.resolve(), path.parent.resolve())
            else:
                content = path.read_bytes()
                entry.size, entry.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


# On a node


def place_of(ticket: Ticket) -> Path:
    """Where the code lies on this machine, if it does."""
    return cache.folder() / "code" / ticket.sha256


def unpack(ticket: Ticket, packed: bytes) -> None:
    """Put the code where it belongs, whole or not at all, and remove what nobody has used for long.
    Raises OSError: it cannot be written. UsageError: it is not what the ticket says. Unavailable: no Python
    that unpacks safely."""
    place, data = place_of(ticket), gzip.decompress(packed)
    if not hasattr(tarfile, "data_filter"):
        raise Unavailable("this Python cannot unpack code safely", why="it is older than 3.11.4")
    if hashlib.sha256(data).hexdigest() != ticket.sha256:
        raise UsageError("the code came damaged", why="its hash is another one")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as draft:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(Path(draft, "code"), filter="data")  # nothing outside of it, no devices
        with suppress(OSError):  # another node of this machine was faster
            Path(draft, "code").rename(place)
    for other in place.parent.iterdir():
        if time.time() - other.stat().st_mtime > KEPT:
            shutil.rmtree(other, ignore_errors=True)


def enter(ticket: Ticket, fetch: Callable[[], bytes]) -> None:
    """Work in the code from now on, as the user does on the head. fetch: gives it packed, if it is not here.
    Raises as `unpack`."""
    if not (place := place_of(ticket)).is_dir():
        unpack(ticket, fetch())
    os.utime(place)
    os.chdir(place / ticket.folder)
    paths = os.pathsep.join(filter(None, [ticket.path, os.environ.get("PYTHONPATH", "")]))
    path = Revision("", Path.cwd(), Path(ticket.top), place).python_path(paths)
    os.environ["PYTHONPATH"] = path
    sys.path[1:1] = path.split(os.pathsep)
