"""Packed trace files as a stream of bytes: gzip, zip, xz and Zstandard, recognised by their first bytes.

Lies when: a trace compresses better than any that a profiler wrote; from 1 GiB on it is taken for a bomb.
"""

from __future__ import annotations

import gzip
import importlib
import lzma
import queue
import threading
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.trace.reading.stream import BLOCK

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
            f"{path} is encrypted", why="it wants a password", next="unzip it, and name the file"
        )
    return archive.open(members[0])


def _zstandard(file: IO[bytes], path: Path) -> IO[bytes]:
    """With the standard library of Python 3.14, or what brings it to older ones."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            library: Any = importlib.import_module(name)
        except ImportError:
            continue
        return cast(IO[bytes], library.ZstdFile(file))
    raise UsageError(
        f"{path} cannot be unpacked",
        why="this Python has no library for Zstandard: 3.14 brings one, older ones need backports.zstd",
        next="pip install 'laptime[zst]', or zstd -d " + path.name,
    )


_OPENERS: dict[bytes, Opener] = {
    b"\x1f\x8b": lambda file, _: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ\x00": lambda file, _: cast(IO[bytes], lzma.LZMAFile(file)),  # noqa: SIM115, Ahead closes it
    b"\x28\xb5\x2f\xfd": _zstandard,
    b"PK\x03\x04": _zip,
}


def opener(path: Path) -> Opener | None:
    """What unpacks a file; None for one that is plain.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb") as file:
        begin = file.read(max(map(len, _OPENERS)))
    return next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), None)


class Ahead:
    """Unpacks a file on a thread of its own (the libraries let go of the interpreter), a few blocks ahead.

    Attributes:
        broken: why it ended before its end; "" when it did not.
    """

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

        Raises:
            UsageError: it cannot be unpacked, or is a bomb.
        """
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
                    f"{self._path} is not read to its end",
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
