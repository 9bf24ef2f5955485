"""Several processes decode stretches of one plain file.

    main:     head | stretch 0 |
    worker 1:                  | stretch 1 |
    worker n:                              | stretch n | tail

A worker is `python -m laptime.trace.reading.parallel_decode FILE BEGIN END EXACT`; it answers with one
Part as MessagePack on stdout. It is a fresh interpreter, not a fork: the caller may have threads.
"""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from pathlib import Path
from typing import IO

import msgspec

from laptime.trace.reading.gather import Gather, Imprecise, Part
from laptime.trace.reading.stream import Cut, first_corner

_WINDOW = 8 << 20
HEAD_START = 24 << 20
"""Bytes that are decoded here while a fresh interpreter starts and imports numpy (0.25 s)."""
_IMPRECISE = 9
_REFUSED = 8


def read(path: Path, size: int, processes: int, *, exact: bool) -> list[Part] | None:
    """The parts in order; None when the file cannot be cut blindly, so that it must be read in one go.

    Raises:
        Imprecise: as Gather.add.
    """
    cuts = [0, *_cuts(path, size, processes), size]
    if len(cuts) < 3:
        return None
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(path), str(begin), str(end), str(int(exact))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for begin, end in itertools.pairwise(cuts[1:])
    ]
    try:
        parts = [stretch(path, 0, cuts[1], exact=exact)]
        for worker in workers:
            assert worker.stdout is not None
            data = worker.stdout.read()
            code = worker.wait()
            if code == _IMPRECISE:
                raise Imprecise
            if code != 0:
                return None
            parts.append(msgspec.msgpack.decode(data, type=Part))
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
            if worker.stdout:
                worker.stdout.close()
    # A cut inside the text of an event leaves two halves that no way can read: read it again in one go.
    clean = all(part.lost == 0 for part in parts) and not any(part.tail for part in parts[:-1])
    return parts if clean else None


def stretch(path: Path, begin: int, end: int, *, exact: bool) -> Part:
    """One stretch: whole events, with the head if it is the first and the tail if it is the last."""
    with path.open("rb") as file:
        file.seek(begin)
        last = end == path.stat().st_size
        cut = Cut(_Bounded(file, end - begin).read, exact=exact, inside=begin > 0, open_end=not last)
        return gathered(cut)


def gathered(cut: Cut) -> Part:
    """All of one stream.

    Raises:
        Imprecise: as Gather.add.
    """
    collector = Gather()
    for events in cut.events():
        collector.add(events)
    part = collector.part()
    part.head, part.tail, part.size = cut.head, cut.tail, cut.size
    part.truncated, part.lost = cut.truncated, cut.lost
    return part


class _Bounded:
    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _cuts(path: Path, size: int, processes: int) -> list[int]:
    """Where events begin, near shares of the file that take equally long."""
    cuts = []
    first_size = (size + min(HEAD_START, size // 4) * (processes - 1)) // processes
    with path.open("rb") as file:
        for number in range(processes - 1):
            at = first_size + (size - first_size) * number // (processes - 1)
            file.seek(at)
            corner = first_corner(file.read(_WINDOW))
            if corner is None:
                return []
            cuts.append(at + corner)
    return sorted(set(cuts))


def _main(path: str, begin: str, end: str, exact: str) -> int:
    gc.disable()
    try:
        part = stretch(Path(path), int(begin), int(end), exact=exact == "1")
    except Imprecise:
        return _IMPRECISE
    except Exception:  # whatever it is, the file is read again in one go, and says there what is wrong
        return _REFUSED
    sys.stdout.buffer.write(msgspec.msgpack.encode(part))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
