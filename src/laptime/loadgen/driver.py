"""Requests sent as they are due, or by users one after another; every one is accounted for.

A request that is due is sent, or waits for its turn where only so many may be under way: none is left out
because others are slow. What waits for its turn does so inside its latency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

from msgspec import structs

from laptime.loadgen.endpoint import Client
from laptime.loadgen.messages import Level
from laptime.loadgen.timer import Timer
from laptime.records.requests import Answer

BEAT = 0.02
"""Seconds between two beats of a loop that is awake."""
STALL = 0.005
"""A beat that comes so much too late is a stall: answers were there, and nobody read the clock."""


class _UnderWay(NamedTuple):
    """A request without an answer: the first of a conversation, or one that follows."""

    number: int
    turn: int
    due: float
    woken: float

    @classmethod
    def after(cls, answer: Answer) -> _UnderWay:
        """The turn that follows on an answer."""
        return cls(answer.number + 1, answer.turn + 1, answer.end, answer.end)


class Driver:
    """Carries out one level.

    Args:
        now: the clock; times of the level are on it.
        report: takes each answer, as it comes.
        make_timer: wakes at a time of the clock.

    Attributes:
        stalls: [begin, seconds] of each stall of this process.
    """

    def __init__(
        self,
        client: Client,
        level: Level,
        *,
        now: Callable[[], float],
        report: Callable[[Answer], None],
        make_timer: Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Timer] = Timer,
    ) -> None:
        self._client, self._level, self._now, self._report = client, level, now, report
        self._make_timer = make_timer
        self._turns = asyncio.Semaphore(level.limit) if level.limit else None
        self._tasks: dict[asyncio.Task[None], _UnderWay] = {}
        self._next = 0
        self._sent_all = asyncio.Event()
        self._end = level.begin + level.end
        self.stalls: list[list[float]] = []

    async def run(self) -> None:
        """Send all requests, and wait for their answers as long as the level has patience."""
        beat = asyncio.create_task(self._beat())
        try:
            await (self._by_users() if self._level.users else self._as_due())
            left = self._end + self._level.patience - self._now()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=max(0.0, left))
            await self._give_up()
        finally:
            beat.cancel()

    def stop(self) -> None:
        """Begin no more requests; those under way are waited for."""
        self._end = min(self._end, self._now())
        self._next = len(self._level.due)
        self._sent_all.set()

    async def _as_due(self) -> None:
        timer = self._make_timer(asyncio.get_running_loop(), self._wake)
        self._timer = timer
        try:
            self._wake()
            await self._sent_all.wait()
        finally:
            timer.close()

    def _wake(self) -> None:
        """Begin all requests that are due by now."""
        level = self._level
        while self._next < len(level.due):
            due = level.begin + level.due[self._next]
            woken = self._now()
            if due > woken:
                self._timer.at(due)
                return
            self._begin(level.index[self._next], due, woken)
            self._next += 1
        self._sent_all.set()

    def _begin(self, index: int, due: float, woken: float) -> None:
        task = asyncio.create_task(self._one(index, due, woken))
        self._tasks[task] = _UnderWay(index * self._level.turns, 0, due, woken)
        task.add_done_callback(self._tasks.pop)

    async def _one(self, index: int, due: float, woken: float) -> None:
        async with self._turns or nullcontext():
            async for answer in self._client.conversation(index, due, woken):
                self._tell(answer)
                if task := asyncio.current_task():
                    self._tasks[task] = _UnderWay.after(answer)

    def _tell(self, answer: Answer) -> None:
        self._report(structs.replace(answer, sender=self._level.sender) if self._level.sender else answer)

    async def _by_users(self) -> None:
        """As many users as asked for, each sends when its last request was answered."""
        level = self._level
        await asyncio.sleep(max(0.0, level.begin - self._now()))
        numbers = iter(range(level.first, level.first + level.step * (level.requests or 10**9), level.step))
        users = [asyncio.create_task(self._user(numbers)) for _ in range(level.users)]
        _, late = await asyncio.wait(users, timeout=max(0.0, self._end + level.patience - self._now()))
        for user in late:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)

    async def _user(self, numbers: Iterator[int]) -> None:
        while (due := self._now()) < self._end:
            index = next(numbers, None)
            if index is None:
                return
            next_one = _UnderWay(index * self._level.turns, 0, due, due)
            try:
                async for answer in self._client.conversation(index, due, due):
                    self._tell(answer)
                    next_one = _UnderWay.after(answer)
            except asyncio.CancelledError:
                self._report(self._level.given_up(*next_one, self._now()))
                raise

    async def _give_up(self) -> None:
        """What has no answer by now gets none; that it had none is told."""
        left = dict(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        now = self._now()
        for request in left.values():
            self._report(self._level.given_up(*request, now))

    async def _beat(self) -> None:
        while True:
            before = self._now()
            await asyncio.sleep(BEAT)
            late = self._now() - before - BEAT
            if late > STALL:
                self.stalls.append([before + BEAT, late])
