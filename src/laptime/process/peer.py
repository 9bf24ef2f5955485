"""Whoever is at the other end of a channel, as the one who asks sees it: with time limits and last words.

    with Peer.start([sys.executable, "-m", "laptime.launch.worker"]) as peer:
        answer = peer.ask(b"...", timeout=60)

A peer is a program that was started here, or anything else with a channel to it. Waiting blocks in `poll`: a
process that spins would take a core away from what is being measured."""

import os
import select
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from subprocess import PIPE
from time import monotonic
from typing import IO, Any, Self

from laptime.process.channel import Channel, Closed, Frames, Garbled, Late
from laptime.process.program import LastWords, Process, deferred_signals, tail

LEAVING = 1.0  # seconds that a program may take to end after it has closed its end of the channel
SENDING = 60.0  # seconds that a message may take to be read by a program that does something else


class Silent(Exception):
    """No message came, or none was taken, in time."""


class Gone(Exception):
    """A peer has ended, or can no longer be talked to; then it was ended. `words`: its last ones."""

    def __init__(self, words: LastWords) -> None:
        super().__init__(words.sentence)
        self.words = words


class Peer:
    """The other end of a channel. process: the program that is there; None: none that was started here. log:
    what it prints."""

    def __init__(
        self, channel: Channel, process: Process | None = None, log: IO[bytes] | None = None
    ) -> None:
        self._channel, self._process, self._log = channel, process, log
        self._ending = None if process is None else process.descriptor()
        self._garbled, self._is_gone = "", False

    @classmethod
    def start(
        cls, words: Sequence[str], *, cpus: Sequence[int] = (), frames: Frames | None = None, **options: Any
    ) -> "Peer":
        """Start a program that talks over its standard input and output (`channel.to_parent`). cpus: on which
        it runs; none: on all. frames: how it talks. options: as for `Process`. Without `stderr`, what it
        prints is kept for its last words. Raises OSError: it does not start."""
        log = None if "stderr" in options else tempfile.TemporaryFile(prefix="laptime-log-")  # noqa: SIM115
        with deferred_signals() as release:
            process = Process(words, stdin=PIPE, stdout=PIPE, **{"stderr": log, **options})
            if cpus:  # before its interpreter has started a thread: all of them inherit it
                with suppress(OSError, AttributeError):
                    os.sched_setaffinity(process.pid, cpus)
            peer = cls(_channel(process, frames), process, log)
            try:
                release()
            except BaseException:
                peer.close()
                raise
        return peer

    @property
    def pid(self) -> int:
        """Process id of the program, 0 if none was started here."""
        return self._process.pid if self._process else 0

    @property
    def is_alive(self) -> bool:
        """Whether it can be talked to. What a program that has ended leaves behind is ended."""
        if self._process is None:
            return self._channel.is_open and not self._is_gone
        if self._process.poll() is None:
            return True
        self._process.end()
        return False

    def send(self, message: bytes, timeout: float = SENDING) -> None:
        """Send a message without waiting for an answer.
        Raises Gone: nobody is there. Silent: it was not taken within `timeout` seconds."""
        try:
            self._channel.send(message, timeout)
        except Closed:
            raise Gone(self.last_words()) from None
        except Late:
            raise Silent from None

    def receive(self, timeout: float) -> bytes:
        """The next message. Raises Gone: nobody is there. Silent: none came within `timeout` seconds."""
        return next(receive_any([self], timeout))[1]

    def ask(self, message: bytes, timeout: float) -> bytes:
        """Send a message; the next one that comes.
        Raises Gone: nobody is there. Silent: none came within `timeout` seconds."""
        until = monotonic() + timeout
        self.send(message, timeout)
        return self.receive(until - monotonic())

    def last_words(self) -> LastWords:
        """Return how it ended, and what it has printed; it is ended if it has not."""
        note, self._is_gone = self._garbled, True
        if self._process is None:
            return LastWords(None, "", note or "has closed the channel")
        if not self._process.ends_within(LEAVING):
            note = note or "has closed the channel"
        return LastWords(self._process.end(), tail(self._log) if self._log else "", note)

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself within so many seconds."""
        return self._process is None or self._process.ends_within(seconds)

    def end(self, grace: float = 0.0) -> None:
        """Kill the program and all that it has started. Safe to call twice. grace: seconds that it gets to
        end by itself, and as many again once it is told to."""
        if self._process is not None:
            self._process.ends_within(grace)
            self._process.end(grace=grace)

    def close(self, grace: float = 0.0) -> None:
        """End it, and close the channel. Safe to call twice. grace: as for `end`."""
        self.end(grace)
        self._channel.close()
        if self._log is not None:
            self._log.close()
        if self._ending is not None:
            os.close(self._ending)
            self._ending = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> bytes | None:
        try:
            return self._channel.taken()
        except Garbled as error:
            self._garbled = f"sent what is not a message: {error}"
            raise Gone(self.last_words()) from None

    def _read(self, *, has_ended: bool) -> None:
        """Read what is there; all of it from one that has ended, whose children may hold the stream open."""
        while self._channel.read() and has_ended:
            pass
        if has_ended:
            self._channel.is_open = False


def receive_any(peers: Sequence[Peer], timeout: float) -> Iterator[tuple[Peer, bytes]]:
    """Messages of many peers, as they come. It may be left at any message: no other is lost. peers: looked at
    anew before each wait: whoever is removed is no longer listened to. timeout: seconds for all of this.
    Raises Gone: one of them ended; what it had sent was given. Silent: none came in what was left of
    `timeout`."""
    until = monotonic() + timeout
    while True:
        for peer in list(peers):
            while (message := peer._take()) is not None:
                yield peer, message
                if peer not in peers:
                    break
            else:
                if not peer._channel.is_open:
                    raise Gone(peer.last_words())
        _wait(peers, until)


def _wait(peers: Sequence[Peer], until: float) -> None:
    """Until one of them says something or ends, and read it. Raises Silent: none did."""
    poll = select.poll()
    read: dict[int, Callable[[], None]] = {}
    for peer in peers:
        read[peer._channel.fileno()] = partial(peer._read, has_ended=False)
        if peer._ending is not None:
            read[peer._ending] = partial(peer._read, has_ended=True)
    for descriptor in read:
        poll.register(descriptor, select.POLLIN)
    if not (ready := poll.poll(1e3 * max(0.0, until - monotonic()))):
        raise Silent
    for descriptor, _ in ready:
        read[descriptor]()


def _channel(process: Process, frames: Frames | None) -> Channel:
    """Descriptors of our own in place of Popen's files, which buffer."""
    ends = []
    for stream in (process.stdout, process.stdin):
        assert stream is not None
        ends.append(os.dup(stream.fileno()))
        stream.close()
    process.stdin = process.stdout = None
    return Channel(ends[0], ends[1], frames)
