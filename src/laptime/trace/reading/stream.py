r"""A trace file as chunks of whole events, without ever holding the file.

    {"schemaVersion": 1, ..., "traceEvents": [ {...}, {...}, ... ], "traceName": ...}
    \________________ head ________________/  \____ chunks ____/ \____ tail ____/

A chunk ends at a corner `}, {"`. A corner may also lie inside a list of an event (and at the end of a text,
else its quote would be escaped); then the chunk does not decode, and an earlier corner is tried. So whatever
decodes was cut rightly.

Packed files (gzip, zip, xz, Zstandard) are recognised by their first bytes, and unpacked on a thread ahead.

Lies when: a trace compresses better than any that a profiler wrote; from 1 GiB on it is taken for a bomb."""

import gzip
import importlib
import itertools
import lzma
import queue
import re
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

from laptime.kit.errors import UsageError
from laptime.kit.extras import install
from laptime.kit.text import count
from laptime.trace.reading.decode import Events, Undecodable, loosely, mend, strictly, well_formed

BLOCK = 1 << 20
"""Bytes read at once. Its events stay in the cache of a CPU; larger ones do not, smaller ones cost joins."""
_CORNER = re.compile(rb'\}\s*,\s*(?=\{\s*")')
_END, _EMPTY = re.compile(rb"\}\s*\]"), re.compile(rb"\s*\]")
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_LARGEST = 64 << 20
"""Bytes of the head, the tail, or one event, above which a file is none that a profiler wrote."""
_TRIES = 4


class Cut:
    """Reads one stream of bytes to its end.

    head, tail: the JSON around the list of events; valid after `events` is exhausted. size: bytes seen.
    truncated: the list of events did not end. lost: events that could not be read."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        *,
        exact: bool = False,
        inside: bool = False,
        open_end: bool = False,
    ) -> None:
        """`inside`: the stream begins with an event, `open_end`: it ends with one, and that is no fault."""
        self._read = read
        self._exact = exact
        self._inside = inside
        self._open_end = open_end
        self._done = False
        self._closed = False
        self.head = b""
        self.tail = b""
        self.size = 0
        self.truncated = False
        self.lost = 0

    def events(self) -> Iterator[Events]:
        """Lists of decoded events. Raises UsageError: this is no list of trace events."""
        rest = b"" if self._inside else self.find_list()
        while True:
            block = self._more()
            if not block:
                break
            rest += block
            events, rest = self._whole(rest)
            if events:
                yield events
            elif len(rest) > _LARGEST:
                raise no_trace(f"{_LARGEST >> 20} MiB of it hold no event")
        yield from self._last(rest)

    def _more(self) -> bytes:
        block = b"" if self._done else self._read(BLOCK)
        self._done = not block
        self.size += len(block)
        return block

    def find_list(self) -> bytes:
        """Set `head`, and return what was read behind it.
        Raises UsageError: this is no list of trace events."""
        head = b""
        while True:
            block = self._more()
            head += block
            start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
            if start.startswith(b"["):
                return _of_events(start[1:])
            match = _ARRAY.search(head)
            if match:
                self.head = head[: match.end()].lstrip(b"\xef\xbb\xbf")
                return _of_events(head[match.end() :])
            if start.startswith(b'{"rocprofiler-sdk-tool"'):
                raise no_trace("it is rocprofv3's own JSON", "rocprofv3 --sys-trace --output-format rocpd")
            if not block or len(head) > _LARGEST or (start and not start.startswith(b"{")):
                raise no_trace("there is no list called traceEvents in it" if start else "the file is empty")

    def _whole(self, text: bytes) -> tuple[Events, bytes]:
        """Events up to a corner near the end of the text, and the rest."""
        stop = len(text)
        for _ in range(_TRIES):
            corner = _last_corner(text, stop)
            if corner is None:
                return [], text
            try:
                return strictly(text[: corner[0]], exact=self._exact), text[corner[1] :]
            except Undecodable:
                mended = mend(text[: corner[0]])
                if well_formed(mended):  # cut rightly: one of its events is odd
                    return self._loosely(mended), text[corner[1] :]
                stop = corner[0] - 1
        if (end := self._end_of_list(text)) is not None:
            # The list ended in the middle of this block: all that follows is tail.
            return self._close(text, *end), b""
        corner = _last_corner(text, len(text))
        if corner is None:
            return [], text
        return self._loosely(mend(text[: corner[0]])), text[corner[1] :]

    def _loosely(self, mended: bytes) -> Events:
        events, lost = loosely(mended, exact=self._exact)
        self.lost += lost
        return events

    def _close(self, text: bytes, after: int, events: Events) -> Events:
        rest = [text[after:]]
        while sum(map(len, rest)) < _LARGEST and (block := self._more()):
            rest.append(block)
        self.tail = b"".join(rest)
        self._closed = True
        return events

    def _end_of_list(self, text: bytes) -> tuple[int, Events] | None:
        """Return where the tail begins, and the events before it."""
        if empty := _EMPTY.match(text):
            return empty.end(), []
        for match in itertools.islice(_END.finditer(text), 64):
            stop = match.start() + 1
            try:
                return match.end(), strictly(text[:stop], exact=self._exact)
            except Undecodable:
                continue
        return None

    def _last(self, text: bytes) -> Iterator[Events]:
        """Yield the rest at the end of the stream."""
        if self._closed:
            return
        if not text.strip():
            self.truncated = not self._open_end
            return
        if self._open_end and (events := self._all(text)) is not None:
            yield events
            return
        end = self._end_of_list(text)
        if end is not None:
            yield self._close(text, *end)
            return
        # Damaged, or cut off: take it loosely up to the end of the list, if there is one.
        closing = list(_END.finditer(text))
        stop = len(text)
        if closing and not text[closing[0].end() :].lstrip().startswith((b"{", b",{")):
            stop, self.tail = closing[0].start() + 1, text[closing[0].end() :]
        else:
            self.truncated = not self._open_end
        events, lost = loosely(mend(text[:stop]), exact=self._exact)
        self.lost += lost - (1 if self.truncated and lost else 0)
        yield events

    def _all(self, text: bytes) -> Events | None:
        try:
            return strictly(text.rstrip().removesuffix(b","), exact=self._exact)
        except Undecodable:
            return None


def _of_events(text: bytes) -> bytes:
    """The text behind the bracket of the list. Raises UsageError: it is a list of something else."""
    if text.lstrip()[:1] not in (b"{", b"]", b""):
        raise no_trace("its list holds something else than events")
    return text


def no_trace(
    why: str, next: str = "write one with torch.profiler, or laptime profile script.py"
) -> UsageError:
    """The error of a file that is none."""
    return UsageError("this is not a PyTorch profiler trace", why=why, next=next)


def unreadable(path: Path, error: OSError, next: str = "") -> UsageError:
    """The error of a file that cannot be opened."""
    return UsageError(f"{path} cannot be read", why=error.strerror or str(error), next=next)


def _last_corner(text: bytes, stop: int) -> tuple[int, int] | None:
    """The last corner that begins before `stop`: end of the event before it, start of the one after."""
    window = 1 << 14
    while True:
        begin = max(0, stop - window)
        corners = _CORNER.finditer(text, begin, min(len(text), stop + 64))
        before = [corner for corner in corners if corner.start() < stop]
        if before:
            return before[-1].start() + 1, before[-1].end()
        if begin == 0:
            return None
        window *= 8


def first_corner(text: bytes) -> int | None:
    """Return where the first event begins that follows another one; None when there is none."""
    match = _CORNER.search(text)
    return match.end() if match else None


_BOMB_RATIO, _BOMB_SIZE = 200, 1 << 30
"""Traces shrink to a tenth or a fiftieth. What unpacks to more than both is no trace."""
Opener = Callable[[IO[bytes], Path], IO[bytes]]


def _zip(file: IO[bytes], path: Path) -> IO[bytes]:
    """The only trace in a zip file."""
    archive = zipfile.ZipFile(file)
    members = [each for each in archive.infolist() if not each.is_dir() and ".json" in each.filename]
    if len(members) != 1:
        raise UsageError(
            f"{path} holds {count(len(members), 'trace')}" if members else f"there is no trace in {path}",
            why=f"one .json file is read from a zip file; it has {count(len(archive.infolist()), 'file')}",
            next=f"unzip {path.name} -d FOLDER, then laptime trace FOLDER",
        )
    if members[0].flag_bits & 1:
        raise UsageError(
            f"{path} is encrypted", why="it needs a password", next="unzip it, and name the file"
        )
    return archive.open(members[0])


def _zstandard(file: IO[bytes], path: Path) -> IO[bytes]:
    """Open with the standard library of Python 3.14, or with the package that brings it to older ones."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            library: Any = importlib.import_module(name)
        except ImportError:
            continue
        return cast(IO[bytes], library.ZstdFile(file))
    raise UsageError(
        f"{path} cannot be unpacked",
        why="this Python has no library for Zstandard: 3.14 brings one, older ones need backports.zstd",
        next=f"{install('zst')}, or zstd -d {path.name}",
    )


_OPENERS: dict[bytes, Opener] = {
    b"\x1f\x8b": lambda file, _: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ\x00": lambda file, _: cast(IO[bytes], lzma.LZMAFile(file)),  # noqa: SIM115, Ahead closes it
    b"\x28\xb5\x2f\xfd": _zstandard,
    b"PK\x03\x04": _zip,
}


def opener(path: Path) -> Opener | None:
    """Return the opener that unpacks a file; None for a plain one. Raises OSError: it cannot be opened."""
    with path.open("rb") as file:
        begin = file.read(max(map(len, _OPENERS)))
    return next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), None)


class Ahead:
    """Unpacks a file on a thread of its own (the libraries let go of the interpreter), a few blocks ahead.

    broken: why it ended before its end; "" when it did not."""

    def __init__(self, path: Path, opener: Opener) -> None:
        self.broken = ""
        self._path, self._opener = path, opener
        self._refused: UsageError | None = None
        self._blocks: queue.Queue[bytes] = queue.Queue(maxsize=4)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def read(self, size: int) -> bytes:
        """The next block, of about `BLOCK` bytes; empty at the end.
        Raises UsageError: it cannot be unpacked, or is a bomb."""
        block = self._blocks.get()
        if not block and self._refused:
            raise self._refused
        return block

    def close(self) -> None:
        """Stop early."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._blocks.get(timeout=0.05)
            except queue.Empty:
                continue

    def _work(self) -> None:
        try:
            with ExitStack() as stack:
                packed = stack.enter_context(self._path.open("rb"))
                self._unpack(stack.enter_context(self._opener(packed, self._path)))
        except UsageError as error:
            self._refused = error
        except Exception as error:  # each library has errors of its own for damaged files
            self.broken = str(error) or type(error).__name__
        self._blocks.put(b"")

    def _unpack(self, file: IO[bytes]) -> None:
        packed, size = self._path.stat().st_size, 0
        while not self._closed.is_set() and (block := file.read1(BLOCK)):  # type: ignore[attr-defined]
            block = self._fill(block, file)
            size += len(block)
            if size > max(_BOMB_SIZE, _BOMB_RATIO * packed):
                raise UsageError(
                    f"{self._path} was not read to its end",
                    why=f"it unpacks to more than {_BOMB_RATIO} times its size, as no trace does",
                    next="unpack it, if you trust it, and name the file",
                )
            self._blocks.put(block)

    @staticmethod
    def _fill(block: bytes, file: IO[bytes]) -> bytes:
        """A full block, as far as the stream goes; what came before a fault is not lost."""
        parts, size = [block], len(block)
        while size < BLOCK:
            try:
                more = file.read1(BLOCK - size)  # type: ignore[attr-defined]
            except (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile):
                break
            if not more:
                break
            parts.append(more)
            size += len(more)
        return b"".join(parts)
