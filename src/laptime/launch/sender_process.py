"""Sender processes, started, asked and ended together: to a verb they are one.

A level is dealt out to them in turn, request by request, so that each sends at a share of the rate. The
parent blocks while they send; what they tell comes back as it comes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

from msgspec import structs

from laptime.kit.clock import SystemClock
from laptime.launch.worker import CommandFailed
from laptime.loadgen.messages import (
    Close,
    Command,
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
    decode_message,
    encode,
)
from laptime.process.peer import SENDING, Gone, Peer, Silent, received
from laptime.process.program import LastWords
from laptime.records.case import Failure

OPENING = 120.0
"""Seconds that a target may take until it answers for the first time."""


class Senders:
    """So many sender processes for one target. count: processes; a program has one."""

    def __init__(self, target: Endpoint | Program, count: int = 1) -> None:
        self._target = target
        self._processes: list[_Sender] = []
        self.facts: dict[str, object] = {}
        self._grow(count)

    @property
    def count(self) -> int:
        """Processes that send."""
        return len(self._processes)

    def _grow(self, count: int) -> None:
        try:
            while len(self._processes) < count:
                self._processes.append(_Sender())
            fresh = [sender for sender in self._processes if not sender.is_opened]
            for sender in fresh:
                sender.send(self._target)
            for sender in fresh:
                for message in _all([sender], OPENING):
                    if isinstance(message, Opened):
                        sender.is_opened = True
                        self.facts = message.facts
                        break
        except BaseException:
            self.close()
            raise

    def grow(self, count: int) -> None:
        """Start more of them."""
        self._grow(count)

    def level(self, level: Level) -> Iterator[Message]:
        """Carry out a level; what all of them tell, as it comes.
        Raises CommandFailed: one of them ended or failed; what came until then was told.
        """
        busy = self._processes
        for at, sender in enumerate(busy):
            sender.send(_share(level, at, len(busy)))
        left = len(busy)
        for message in _all(busy, level.begin - SystemClock.now() + level.end + level.patience + 30):
            yield message
            if isinstance(message, LevelDone):
                left -= 1
                if not left:
                    return

    def stop(self) -> None:
        """End the level that is carried out: requests that are due later are not sent."""
        for sender in self._processes:
            sender.send(Stop())

    def self_test(self, test: SelfTest) -> list[SelfTested]:
        """What each does alone, all at the same time, at its part of the rate.
        Raises CommandFailed: one of them ended or failed.
        """
        part = structs.replace(test, rate=test.rate / self.count, requests=-(-test.requests // self.count))
        for sender in self._processes:
            sender.send(part)
        tested: list[SelfTested] = []
        for message in _all(self._processes, OPENING):
            if isinstance(message, SelfTested):
                tested.append(message)
                if len(tested) == self.count:
                    break
        return tested

    def close(self) -> None:
        """End all of them. Safe to call twice."""
        for sender in self._processes:
            sender.close()
        self._processes = []


class _Sender:
    def __init__(self) -> None:
        self.peer = Peer.start([sys.executable, "-m", "laptime.launch.sender"])
        self.is_opened = False

    def send(self, command: Command) -> None:
        try:
            self.peer.send(encode(command))
        except Gone as gone:
            raise CommandFailed(_obituary(gone.words)) from None
        except Silent:
            raise CommandFailed(_hung(SENDING)) from None

    def close(self) -> None:
        with suppress(CommandFailed):
            if self.peer.is_alive:
                self.send(Close())
        self.peer.close()


def _all(senders: list[_Sender], timeout: float) -> Iterator[Message]:
    """What they tell, as it comes, until nobody listens any more."""
    try:
        for _, message in received([sender.peer for sender in senders], timeout):
            told = decode_message(message)
            if isinstance(told, Refused):
                raise CommandFailed(told.failure)
            yield told
    except Gone as gone:
        raise CommandFailed(_obituary(gone.words)) from None
    except Silent:
        raise CommandFailed(_hung(timeout)) from None


def _obituary(words: LastWords) -> Failure:
    return Failure(
        kind="died",
        what=f"a process that sent requests {words.how}",
        why=words.line or "it printed nothing",
        next="the same again, with fewer requests under way: --concurrency 64",
        traceback=words.output,
    )


def _hung(timeout: float) -> Failure:
    return Failure(
        kind="hung",
        what=f"a process that sends requests said nothing for {timeout:.0f} s",
        why="a call of a program may hang; requests to an address end after --timeout",
        next="laptime doctor",
    )


def _share(level: Level, at: int, senders: int) -> Level:
    """What one of several senders does of a level."""
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
