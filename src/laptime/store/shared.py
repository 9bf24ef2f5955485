"""A store that several machines share: a folder or bucket behind any URL of fsspec, or a PostgreSQL database.

    ID.SHA256.json.gz    a run file under its id and the hash of its content

The files of each machine stay the truth: nothing is changed or deleted anywhere, what is there already is not
written again, and of two files of one id each machine keeps its own. A file counts once it is there whole."""

import hashlib
import importlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from laptime.kit import redaction
from laptime.kit.errors import ExitCode, Unavailable, UsageError
from laptime.kit.text import count
from laptime.records.event import Listener, Progress, ignore
from laptime.store import cache, files, folder
from laptime.store.journal import is_running

VERSION = 1  # of the tables in a database
_NAME = re.compile(r"([A-Za-z0-9][\w-]{0,99})\.([0-9a-f]{64})(\.json|\.json\.gz|\.jsonl)", re.ASCII)
_LOCK = 7_027_346_001  # of the database, while its tables are made
_TABLES = (
    "create table if not exists laptime_store (version integer primary key)",
    "create table if not exists laptime_runs (name text primary key, file bytea not null)",
)


class Moved(NamedTuple):
    """Numbers of runs: moved now, there before, and damaged on the way (left on either side)."""

    new: int
    known: int
    damaged: int = 0

    @property
    def text(self) -> str:
        """`2 runs, 40 were there already`."""
        damaged = f"; {self.damaged} damaged on the way, left out" if self.damaged else ""
        return f"{count(self.new, 'run')}, {self.known} were there already{damaged}"

    @property
    def code(self) -> ExitCode:
        """NO if anything was damaged."""
        return ExitCode.NO if self.damaged else ExitCode.OK


class Place(Protocol):
    """A set of files."""

    def names(self, newest: int | None = None) -> list[str]: ...  # the newest first; None: all
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...


def push(url: str, emit: Listener = ignore, root: Path | None = None) -> Moved:
    """Copy the runs of this machine that the store does not have; not those that are running.
    Raises UsageError: it cannot be reached or written; what was copied until then is there."""
    new = known = 0
    with _open(url) as place:
        there, paths = {*place.names()}, files.list_files(root)
        for number, path in enumerate(paths):
            if path.suffix == ".jsonl" and is_running(path):
                continue
            data = path.read_bytes()
            suffix = "".join(path.suffixes)
            name = f"{folder.id_of(path)}.{hashlib.sha256(data).hexdigest()}{suffix}"
            if name in there:
                known += 1
                continue
            place.write(name, data)
            new += 1
            emit(Progress(number / len(paths), 0.0, f"pushing {path.name}"))
    return Moved(new, known)


def pull(url: str, emit: Listener = ignore, root: Path | None = None, *, newest: int | None = None) -> Moved:
    """Copy the runs of the store whose ids this machine does not have. newest: look at so many only.
    Raises UsageError: as `push`."""
    root, new, known, damaged = root or folder.home(), 0, 0, 0
    with _open(url) as place:
        own, names = {folder.id_of(path) for path in files.list_files(root)}, place.names(newest)
        for number, name in enumerate(names):
            if (match := _NAME.fullmatch(name)) is None or match[1] in own:
                known += match is not None
                continue
            data = place.read(name)
            if hashlib.sha256(data).hexdigest() != match[2]:
                damaged += 1
                continue
            folder.write_whole(folder.month_of(match[1], root) / f"{match[1]}{match[3]}", data)
            own.add(match[1])
            new += 1
            emit(Progress(number / len(names), 0.0, f"pulling {match[1]}"))
    return Moved(new, known, damaged)


def mirror(url: str, newest: int | None = None) -> Path:
    """A folder in the user's cache with the runs of the store as they are now, at least with so many of the
    newest; None: all. Raises as `pull`."""
    root = cache.folder() / "stores" / hashlib.sha256(url.encode()).hexdigest()[:16]
    pull(url, root=root, newest=newest)
    return root


@contextmanager
def _open(url: str) -> Iterator[Place]:
    """The place behind a URL; whatever its library raises is a UsageError, without the password."""
    is_database = urlsplit(url).scheme.startswith("postgres")
    try:
        with ExitStack() as stack:
            yield _Database(url, stack) if is_database else _Folder(url)
    except ModuleNotFoundError as error:
        what, next = f"{error.name} is not installed", "pip install 'laptime[store]'"
        raise Unavailable(what, why="a shared store is reached by it", next=next) from error
    except UsageError:
        raise
    except Exception as error:  # of the database, or of any file system that fsspec has
        why = str(error).strip() or type(error).__name__
        if password := urlsplit(url).password:
            why = why.replace(password, "...").replace(unquote(password), "...")
        shown = redaction.address(url)
        next = "check its address and your rights; the same command again goes on" if is_database else shown
        raise UsageError(f"{shown} cannot be used as a store", why=why.splitlines()[-1], next=next) from None


class _Folder:
    def __init__(self, url: str) -> None:
        self._fs, base = importlib.import_module("fsspec").core.url_to_fs(url)
        self._base = f"{base.rstrip('/')}/runs"

    def names(self, newest: int | None = None) -> list[str]:
        try:
            listed = self._fs.ls(self._base, detail=False, refresh=True)
        except FileNotFoundError:
            return []
        return sorted((path.rpartition("/")[2] for path in listed), reverse=True)[:newest]

    def read(self, name: str) -> bytes:
        data: bytes = self._fs.cat_file(f"{self._base}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self._fs.makedirs(self._base, exist_ok=True)
        self._fs.pipe_file(f"{self._base}/.{name}", data)
        self._fs.mv(f"{self._base}/.{name}", f"{self._base}/{name}")


class _Database:
    def __init__(self, url: str, stack: ExitStack) -> None:
        # Each statement is a transaction: what is told as pushed is there.
        connection = importlib.import_module("psycopg").connect(url, autocommit=True)
        self._execute = execute = stack.enter_context(connection).execute
        with connection.transaction():
            execute("select pg_advisory_xact_lock(%s)", [_LOCK])
            for table in _TABLES:
                execute(table)
            (made,) = execute("select max(version) from laptime_store").fetchone()
            if made is None:
                execute("insert into laptime_store values (%s)", [VERSION])
        if made is not None and made > VERSION:
            why = f"its tables are of version {made}, this laptime knows {VERSION}"
            next = "pip install --upgrade 'laptime[store]'"
            raise UsageError(f"{redaction.address(url)} is of a newer laptime", why=why, next=next)

    def names(self, newest: int | None = None) -> list[str]:
        query = "select name from laptime_runs order by name desc limit %s"
        return [name for (name,) in self._execute(query, [newest])]

    def read(self, name: str) -> bytes:
        query = "select file from laptime_runs WHERE name = %s"
        (data,) = self._execute(query, [name], binary=True).fetchone()
        return bytes(data)

    def write(self, name: str, data: bytes) -> None:
        self._execute("insert into laptime_runs values (%s, %s) on conflict do nothing", [name, data])
