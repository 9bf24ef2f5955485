"""Sender processes, started, asked and ended together: to a verb they are one; the program that each runs.

A level is dealt out to them in turn, request by request, so that each sends at a share of the rate. The
parent blocks while they send; what they tell comes back as it comes.

Commands come as JSON, messages go as JSON (`process.channel`). Headers may hold secrets: they come over the
channel, and no list of processes shows them."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import structs

from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError
from laptime.launch.worker import CommandFailed, open_variant
from laptime.loadgen import messages
from laptime.loadgen.driver import Driver, drive
from laptime.loadgen.endpoint import HttpClient, client_of, first
from laptime.loadgen.loopback import self_test
from laptime.loadgen.messages import Endpoint, Level, Message, Program, encode
from laptime.measure.failures import failure_of
from laptime.measure.loop import call_of
from laptime.process import channel
from laptime.process.channel import Channel
from laptime.process.peer import SENDING, Gone, Peer, Silent, receive_any
from laptime.records.case import Failure
from laptime.records.requests import Answer

OPENING = 120.0  # seconds that a target may take until it answers for the first time


class Senders:
    """So many sender processes for one target. count: processes; a program has one."""

    def __init__(self, target: Endpoint | Program, count: int = 1) -> None:
        self._target = target
        self._processes: list[_Sender] = []
        self.facts: dict[str, object] = {}
        self.grow(count)

    @property
    def count(self) -> int:
        return len(self._processes)

    def grow(self, count: int) -> None:
        """Start processes until there are so many."""
        try:
            while len(self._processes) < count:
                self._processes.append(_Sender())
            fresh = [sender for sender in self._processes if not sender.is_opened]
            for sender in fresh:
                sender.send(self._target)
            for sender in fresh:
                for message in _all([sender], OPENING):
                    if isinstance(message, messages.Opened):
                        sender.is_opened = True
                        self.facts = message.facts
                        break
        except BaseException:
            self.close()
            raise

    def level(self, level: Level) -> Iterator[Message]:
        """Carry out a level; what all of them tell, as it comes.
        Raises CommandFailed: one of them ended or failed; what came until then was told."""
        busy = self._processes
        for index, sender in enumerate(busy):
            sender.send(_share(level, index, len(busy)))
        left = len(busy)
        for message in _all(busy, level.begin - SystemClock.now() + level.end + level.patience + 30):
            yield message
            if isinstance(message, messages.LevelDone):
                left -= 1
                if not left:
                    return

    def stop(self) -> None:
        """End the level that is carried out: requests that are due later are not sent."""
        for sender in self._processes:
            sender.send(messages.Stop())

    def self_test(self, test: messages.SelfTest) -> list[messages.SelfTested]:
        """Test every sender alone, all at the same time, each at its part of the rate.
        Raises CommandFailed: one of them ended or failed."""
        part = structs.replace(test, rate=test.rate / self.count, requests=-(-test.requests // self.count))
        for sender in self._processes:
            sender.send(part)
        tested: list[messages.SelfTested] = []
        for message in _all(self._processes, OPENING):
            if isinstance(message, messages.SelfTested):
                tested.append(message)
                if len(tested) == self.count:
                    break
        return tested

    def close(self) -> None:
        for sender in self._processes:
            sender.close()
        self._processes = []


class _Sender:
    def __init__(self) -> None:
        self.peer = Peer.start([sys.executable, "-m", "laptime.launch.sender"])
        self.is_opened = False

    def send(self, command: messages.Command) -> None:
        with _failures(SENDING):
            self.peer.send(encode(command))

    def close(self) -> None:
        with suppress(CommandFailed):
            if self.peer.is_alive:
                self.send(messages.Close())
        self.peer.close()


def _all(senders: list[_Sender], timeout: float) -> Iterator[Message]:
    """Yield the senders' messages as they come, until all have ended."""
    with _failures(timeout):
        for _, message in receive_any([sender.peer for sender in senders], timeout):
            told = messages.decode_message(message)
            if isinstance(told, messages.Refused):
                raise CommandFailed(told.failure)
            yield told


@contextmanager
def _failures(timeout: float) -> Iterator[None]:
    """Translate a channel's errors into the words that the user reads."""
    try:
        yield
    except Gone as gone:
        failure = Failure(
            kind="died",
            what=f"a process that sent requests {gone.words.how}",
            why=gone.words.line or "it printed nothing",
            next="run it again with fewer requests in flight: --concurrency 64",
            traceback=gone.words.output,
        )
    except Silent:
        failure = Failure(
            kind="hung",
            what=f"a process that sends requests said nothing for {timeout:.0f} s",
            why="a call of a program may hang; requests to an address end after --timeout",
            next="laptime doctor",
        )
    else:
        return
    raise CommandFailed(failure)


def _share(level: Level, at: int, senders: int) -> Level:
    """Return the part of a level that one of several senders carries out."""
    if senders == 1:
        return level
    users = _part(level.users, at, senders)
    return structs.replace(
        level,
        due=level.due[at::senders],
        index=level.index[at::senders],
        limit=None if level.limit is None else max(1, _part(level.limit, at, senders)),
        users=users,
        requests=None if level.requests is None else _part(level.requests, at, senders),
        first=level.first + at,
        step=senders,
        sender=at,
    )


def _part(whole: int, at: int, parts: int) -> int:
    return whole // parts + (at < whole % parts)


# The program that runs in a sender process: `python -m laptime.launch.sender`.


EVERY = 0.25  # seconds between two messages with answers
Write = Callable[[Message], None]
now = SystemClock.now


class Outbox:
    """Collects answers, so that not each is a message."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._answers: list[Answer] = []
        self._last = now()

    def __call__(self, answer: Answer) -> None:
        self._answers.append(answer)
        if now() - self._last > EVERY:
            self.flush()

    def flush(self) -> None:
        if self._answers:
            self._write(messages.Answers(self._answers))
        self._answers, self._last = [], now()


class EndpointSender:
    def __init__(self, endpoint: Endpoint) -> None:
        self._loop = _event_loop()
        self._endpoint = endpoint
        self._client: HttpClient = client_of(endpoint, now)

    def open(self) -> dict[str, Any]:
        """Ask once, or again if the server was busy; what came."""
        answer = self._loop.run_until_complete(first(self._client))
        return {
            "seconds": answer.end - answer.sent,
            "error": answer.error,
            "detail": answer.detail,
            "status": answer.status,
            "size": answer.size,
        }

    def self_test(self, test: messages.SelfTest) -> messages.SelfTested:
        return self._loop.run_until_complete(self_test(self._endpoint, test, now))

    def level(self, level: Level, outbox: Outbox, parent: Channel) -> list[list[float]]:
        """Carry out a level; when this process stood still."""
        driver = Driver(self._client, level, now=now, report=outbox)

        def stop() -> None:
            """Stop: the only message that comes meanwhile is Stop, or the channel has ended."""
            self._loop.remove_reader(parent)
            driver.stop()

        if parent.is_spoken_to():  # with the level: there is nothing left to wait for
            driver.stop()
        self._loop.add_reader(parent, stop)
        try:
            self._loop.run_until_complete(driver.run())
        finally:
            self._loop.remove_reader(parent)
        return driver.stalls

    def close(self) -> None:
        self._client.close()


class ProgramSender:
    def __init__(self, target: Program) -> None:
        self._model = open_variant(target.variant)
        _, self._call = call_of(self._model.workload(target.batch))

    def open(self) -> dict[str, Any]:
        """Make the first calls, which are slower than others."""
        first = now()
        self._call()
        seconds = now() - first
        for _ in range(2):
            last = now()
            self._call()
        return {
            "first_call": seconds,
            "seconds": now() - last,
            "facts": self._model.facts(),
            "libraries": self._model.libraries(),
            "devices": [device.name for device in self._model.devices()],
        }

    def level(self, level: Level, outbox: Outbox, parent: Channel) -> list[list[float]]:
        drive(level, self._call, SystemClock, outbox, parent.is_spoken_to)
        return []

    def close(self) -> None:
        """Let it go with the process."""


def _event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's if it is installed: it takes half of the CPU."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def main() -> None:
    """Answer commands until Close, or until nobody is there to send one."""
    parent = channel.to_parent()

    def write(message: Message) -> None:
        parent.send(encode(message))

    sender: EndpointSender | ProgramSender | None = None
    for sent in parent:
        command = messages.decode_command(sent)
        try:
            if isinstance(command, messages.Close):
                break
            if isinstance(command, Endpoint | Program):
                sender = EndpointSender(command) if isinstance(command, Endpoint) else ProgramSender(command)
                write(messages.Opened(sender.open()))
            elif isinstance(command, messages.Stop):
                continue  # the level was over before it came
            elif sender is None:
                raise LaptimeError("a level came before its target")
            elif isinstance(command, Level):
                outbox = Outbox(write)
                gc.collect()
                gc.freeze()
                cpu, wall = time.process_time(), now()
                stalls = sender.level(command, outbox, parent)
                outbox.flush()
                write(messages.LevelDone(time.process_time() - cpu, now() - wall, stalls))
            elif isinstance(sender, EndpointSender):
                write(sender.self_test(command))
        except Exception as error:  # whatever it is, laptime has to hear of it
            write(messages.Refused(failure_of(error)))
    if sender is not None:
        sender.close()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
