"""The program that a sender process runs: `python -m laptime.launch.sender`.

Commands come as JSON, messages go as JSON (`process.channel`). Headers may hold secrets: they come over the
channel, and no list of processes shows them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError
from laptime.launch.worker import open_variant
from laptime.loadgen.driver import Driver, drive
from laptime.loadgen.endpoint import HttpClient, client_of, first
from laptime.loadgen.loopback import self_test
from laptime.loadgen.messages import (
    Answers,
    Close,
    Endpoint,
    Level,
    LevelDone,
    Message,
    Opened,
    Program,
    Refused,
    SelfTest,
    SelfTested,
    Stop,
    decode_command,
    encode,
)
from laptime.measure.failures import failure_of
from laptime.process import channel
from laptime.process.channel import Channel
from laptime.records.requests import Answer

EVERY = 0.25
"""Seconds between two messages with answers."""

Write = Callable[[Message], None]
now = SystemClock.now


class Outbox:
    """Collects answers, so that not each is a message."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._answers: list[Answer] = []
        self._last = now()

    def __call__(self, answer: Answer) -> None:
        """Take an answer."""
        self._answers.append(answer)
        if now() - self._last > EVERY:
            self.flush()

    def flush(self) -> None:
        """Send what there is."""
        if self._answers:
            self._write(Answers(self._answers))
        self._answers, self._last = [], now()


class EndpointSender:
    """Sends to an address."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._loop = _event_loop()
        self._endpoint = endpoint
        self._client: HttpClient = client_of(endpoint, now)

    def open(self) -> dict[str, Any]:
        """Ask once, or again where the server was busy; what came."""
        answer = self._loop.run_until_complete(first(self._client))
        return {
            "seconds": answer.end - answer.sent,
            "error": answer.error,
            "detail": answer.detail,
            "status": answer.status,
            "size": answer.size,
        }

    def self_test(self, test: SelfTest) -> SelfTested:
        """Send to a server of this process."""
        return self._loop.run_until_complete(self_test(self._endpoint, test, now))

    def level(self, level: Level, outbox: Outbox, parent: Channel) -> list[list[float]]:
        """Carry out a level; when this process stood still."""
        driver = Driver(self._client, level, now=now, report=outbox)

        def stop() -> None:
            """What comes meanwhile is Stop, or the end of all: nobody is there any more."""
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
        """End all connections."""
        self._client.close()


class ProgramSender:
    """Loads a program and calls it."""

    def __init__(self, target: Program) -> None:
        self._model = open_variant(target.variant)
        workload = self._model.workload(target.batch)
        self._call = workload.call if workload.synchronous else _both(workload.call, workload.sync)

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
        """Carry out a level."""
        drive(level, self._call, SystemClock, outbox, parent.is_spoken_to)
        return []

    def close(self) -> None:
        """Let it go with the process."""


def _both(call: Callable[[], Any], sync: Callable[[], Any]) -> Callable[[], Any]:
    def call_and_sync() -> None:
        call()
        sync()

    return call_and_sync


def _event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: it takes half of the CPU."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _carried_out(
    sender: EndpointSender | ProgramSender, level: Level, write: Write, parent: Channel
) -> LevelDone:
    outbox = Outbox(write)
    gc.collect()
    gc.freeze()
    cpu, wall = time.process_time(), now()
    stalls = sender.level(level, outbox, parent)
    outbox.flush()
    return LevelDone(time.process_time() - cpu, now() - wall, stalls)


def main() -> None:
    """Answer commands until Close, or until nobody is there to send one."""
    parent = channel.to_parent()

    def write(message: Message) -> None:
        parent.send(encode(message))

    sender: EndpointSender | ProgramSender | None = None
    for sent in parent:
        command = decode_command(sent)
        try:
            if isinstance(command, Close):
                break
            if isinstance(command, Endpoint):
                sender = EndpointSender(command)
                write(Opened(sender.open()))
            elif isinstance(command, Program):
                sender = ProgramSender(command)
                write(Opened(sender.open()))
            elif isinstance(command, Stop):
                continue  # the level was over before it came
            elif sender is None:
                raise LaptimeError("a level came before its target")
            elif isinstance(command, Level):
                write(_carried_out(sender, command, write, parent))
            elif isinstance(sender, EndpointSender):
                write(sender.self_test(command))
        except Exception as error:  # whatever it is, laptime has to hear of it
            write(Refused(failure_of(error)))
    if sender is not None:
        sender.close()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
