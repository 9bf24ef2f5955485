"""Framed messages over two descriptors: the pipes of a program, a socket, whatever carries bytes both ways.

Both ends are a `Channel`. A message is any bytes: those who talk agree on what they mean. Its length goes
before it, in eight bytes, highest first: text that somebody else prints into the stream is never taken for
one. Neither end ever waits for the other to read: what comes in while a message goes out is kept, however
long both are.

Standard library only and nothing of laptime: processes without laptime load this file by its path."""

import fcntl
import os
import select
import struct
import sys
from collections.abc import Iterator
from time import monotonic

HIGH = 200  # programs that close their standard streams get the next file that is opened under those numbers
LONGEST = 1 << 40  # bytes of a message at most. Eight bytes of text are a larger number.
_CHUNK = 1 << 20
_LENGTH = struct.Struct(">Q")


class Closed(Exception):
    """The other end is gone, or nothing more can be said to it."""


class Late(Exception):
    """The time limit has passed."""


class Garbled(Closed):
    """Bytes that are not a message: somebody else writes into the stream."""


class Frames:
    """Takes bytes as they come, gives messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._length = -1

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk

    @staticmethod
    def pack(message: bytes) -> bytes:
        """A message as it goes over the stream."""
        return _LENGTH.pack(len(message)) + message

    @property
    def is_whole(self) -> bool:
        """Whether a message has come as a whole. Raises Garbled: what came is none."""
        if self._length < 0 and len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > LONGEST:
                raise Garbled(f"no message begins with {bytes(self._bytes[:80])!r}")
            del self._bytes[: _LENGTH.size]
            self._length = length
        return 0 <= self._length <= len(self._bytes)

    def take(self) -> bytes | None:
        """The next message; None if none has come as a whole. Raises Garbled: what came is none."""
        if not self.is_whole:
            return None
        message = bytes(memoryview(self._bytes)[: self._length])
        del self._bytes[: self._length]
        self._length = -1
        return message


class Lines(Frames):
    """The same of messages that are a line of text each: what other programs print may be looked at."""

    @property
    def is_whole(self) -> bool:
        return b"\n" in self._bytes

    def take(self) -> bytes | None:
        if not self.is_whole:
            return None
        line, _, self._bytes = self._bytes.partition(b"\n")
        return bytes(line)

    @staticmethod
    def pack(message: bytes) -> bytes:
        return message + b"\n"


class Channel:
    """One end. Its descriptors, which may be the same, are made non-blocking.

    is_open: the other end has not closed its stream. Messages may be left when it has. taken: gives the next
    one that has been read, None without one; it reads nothing. Raises Garbled: what came is none."""

    def __init__(self, incoming: int, outgoing: int, frames: Frames | None = None) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._frames = frames or Frames()
        self.taken = self._frames.take
        self._is_cut = False
        self.is_open = True
        for descriptor in {incoming, outgoing}:
            os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        """The descriptor on which messages come."""
        return self._incoming

    def send(self, message: bytes, timeout: float | None = None) -> None:
        """Send a message; returns once the stream has taken it. timeout: seconds; None: any number.
        Raises Closed: the other end is gone, or a message before was sent in part only. Late: it took too
        long."""
        until = None if timeout is None else monotonic() + timeout
        if self._is_cut:
            raise Closed("a message before was sent in part")
        self._is_cut = True  # until it is sent, whatever is raised
        rest = memoryview(self._frames.pack(message))
        while rest:
            try:
                rest = rest[os.write(self._outgoing, rest[:_CHUNK]) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, until)
            except (BrokenPipeError, ConnectionResetError):
                raise Closed("nobody reads any more") from None
        self._is_cut = False

    def receive(self, timeout: float | None = None) -> bytes:
        """The next message. timeout: seconds; None: any number.
        Raises Closed: the other end is gone. Late: none came in time. Garbled: what came is none."""
        until = None if timeout is None else monotonic() + timeout
        while True:
            if (message := self.taken()) is not None:
                return message
            if not self.is_open:
                raise Closed("nobody writes any more")
            self._wait(select.POLLIN, until)

    def read(self) -> bool:
        """Read some of what is there, without waiting: messages are `taken` then; whether anything came."""
        chunk = b""
        if self.is_open:
            try:
                chunk = os.read(self._incoming, _CHUNK)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                pass
            self._frames.add(chunk)
            self.is_open = bool(chunk)
        return bool(chunk)

    def is_spoken_to(self) -> bool:
        """Whether a message or the end of all has come; what is there is read."""
        self.read()
        return self._frames.is_whole or not self.is_open

    def _wait(self, event: int, until: float | None) -> None:
        """Until the stream can be written to or read from; what comes meanwhile is read.
        Raises Late: `until`, a time of the monotonic clock, has passed."""
        poll = select.poll()
        if event == select.POLLOUT:
            poll.register(self._outgoing, select.POLLOUT)
        if self.is_open:
            both = select.POLLIN | (event if self._incoming == self._outgoing else 0)
            poll.register(self._incoming, both)
        left = None if until is None else max(0.0, 1e3 * (until - monotonic()))
        if not poll.poll(left):
            raise Late
        self.read()

    def __iter__(self) -> Iterator[bytes]:
        """Messages until the other end is gone."""
        while True:
            try:
                yield self.receive()
            except Closed:
                return

    def close(self) -> None:
        """Close the descriptors. Safe to call twice."""
        descriptors, self._incoming, self._outgoing = {self._incoming, self._outgoing}, -1, -1
        for descriptor in descriptors - {-1}:
            os.close(descriptor)
        self.is_open, self._is_cut = False, True


def to_parent(frames: Frames | None = None) -> Channel:
    """The channel to the process that has started this one, over its standard input and output.

    Both are moved to numbers that nobody else uses. What the program prints from here on goes to standard
    error, and what it reads is empty: neither can be taken for a message, or take one away."""
    incoming, outgoing = (out_of_reach(os.dup(number)) for number in (0, 1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return Channel(incoming, outgoing, frames)


def out_of_reach(descriptor: int) -> int:
    """The same open file under a number that no program means when it closes 0, 1 and 2."""
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # so many files are not allowed here
        return descriptor
    os.close(descriptor)
    return high
