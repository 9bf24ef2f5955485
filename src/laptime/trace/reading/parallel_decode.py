"""Several processes decode stretches of one plain file.

    main:     head | stretch 0 |
    worker 1:                  | stretch 1 |
    worker n:                              | stretch n | tail

A worker is `python -m laptime.trace.reading.parallel_decode`; it is asked for one stretch and answers with a
Part as MessagePack. It is a fresh interpreter, not a fork: the caller may have threads."""

import gc
import itertools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec

from laptime.process.channel import to_parent
from laptime.process.peer import Gone, Peer, Silent
from laptime.trace.reading.gather import Gather, Imprecise, Part
from laptime.trace.reading.stream import Cut, first_corner

_WINDOW = 8 << 20
HEAD_START = 24 << 20
"""Bytes that are decoded here while a fresh interpreter starts and imports numpy (0.25 s)."""
LONGEST = 3600.0  # seconds that a stretch may take
_IMPRECISE = b"imprecise"


def read(path: Path, size: int, processes: int, *, exact: bool) -> list[Part] | None:
    """The parts in order; None when the file cannot be cut blindly, so that it must be read in one go.
    Raises Imprecise: as Gather.add."""
    cuts = [0, *_cuts(path, size, processes), size]
    if len(cuts) < 3:
        return None
    with ExitStack() as stack:
        workers = []
        for begin, end in itertools.pairwise(cuts[1:]):
            worker = stack.enter_context(Peer.start([sys.executable, "-m", __name__]))
            worker.send(msgspec.msgpack.encode((str(path), begin, end, exact)))
            workers.append(worker)
        parts = [stretch(path, 0, cuts[1], exact=exact)]
        try:
            parts += [_receive(worker) for worker in workers]
        except (Gone, Silent):
            return None
    # A cut inside the text of an event leaves two halves that no way can read: read it again in one go.
    clean = all(part.lost == 0 for part in parts) and not any(part.tail for part in parts[:-1])
    return parts if clean else None


def _receive(worker: Peer) -> Part:
    """A part, its columns one by one: neither process holds them twice."""
    if (answer := worker.receive(LONGEST)) == _IMPRECISE:
        raise Imprecise
    part = msgspec.msgpack.decode(answer, type=Part)
    for name, (dtype, _) in part.columns.items():
        part.columns[name] = dtype, worker.receive(LONGEST)
    return part


def stretch(path: Path, begin: int, end: int, *, exact: bool) -> Part:
    """One stretch: whole events, with the head if it is the first and the tail if it is the last."""
    with path.open("rb") as file:
        file.seek(begin)
        last = end == path.stat().st_size
        cut = Cut(_Bounded(file, end - begin).read, exact=exact, inside=begin > 0, open_end=not last)
        return gather_all(cut)


def gather_all(cut: Cut) -> Part:
    """All of one stream. Raises Imprecise: as Gather.add."""
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
    """Return where events begin, near shares of the file that take equally long."""
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


def _main() -> None:
    gc.disable()
    channel = to_parent()
    path, begin, end, exact = msgspec.msgpack.decode(channel.receive(), type=tuple[str, int, int, bool])
    try:
        part = stretch(Path(path), begin, end, exact=exact)
    except Imprecise:
        channel.send(_IMPRECISE)
    else:  # whatever else it is, the file is read again in one go, and says there what is wrong
        columns = part.columns
        part.columns = {name: (dtype, b"") for name, (dtype, _) in columns.items()}
        channel.send(msgspec.msgpack.encode(part))
        for name in part.columns:
            channel.send(columns.pop(name)[1])


if __name__ == "__main__":
    _main()
