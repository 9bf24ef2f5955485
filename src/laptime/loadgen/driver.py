"""Requests sent as they are due, or by users one after another; every one is accounted for.

A request that is due is sent, or waits for its turn if only so many may be under way: none is left out
because others are slow. What waits for its turn does so inside its latency. `Driver` sends to an address;
`drive` calls a program of this process, one call at a time."""

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import NamedTuple

from msgspec import structs

from laptime.kit.clock import Clock, SystemClock
from laptime.loadgen.endpoint import Client
from laptime.loadgen.messages import Level
from laptime.records.requests import Answer

BEAT = 0.02  # seconds between two beats of a loop that is awake
STALL = 0.005  # a beat that comes so much too late is a stall: answers were there, and nobody read the clock
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds that a user waits after a failure, if the server does not say how long."""
SPIN = 0.0005
"""Seconds before a request is due from which on it is waited for without sleeping: a sleep ends late."""
_MONOTONIC, _ABSOLUTE, _NONBLOCKING = 1, 1, os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_NOW = 1e-9


class Timer:
    """Calls a function at a time of the monotonic clock; one time is waited for at once.

    Timers of event loops are a millisecond coarse. Linux's timerfd wakes within about 0.1 ms. Elsewhere the
    loop's timer does, within 1 to 2 ms."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop, self._wake = loop, wake
        self._file = _timerfd()
        self._handle: asyncio.TimerHandle | None = None
        if self._file is not None:
            loop.add_reader(self._file, self._expire)

    def at(self, when: float) -> None:
        """Wake at this time on `time.perf_counter`; at once if it has passed."""
        if self._file is None:
            self._handle = self._loop.call_later(max(0.0, when - SystemClock.now()), self._wake)
            return
        whole = int(when)
        spec = struct.pack("qqqq", 0, 0, whole, max(1, int((when - whole) / _NOW)))
        ctypes.CDLL(None, use_errno=True).timerfd_settime(self._file, _ABSOLUTE, spec, None)

    def _expire(self) -> None:
        assert self._file is not None
        os.read(self._file, 8)
        self._wake()

    def close(self) -> None:
        """Give the timer back."""
        if self._handle is not None:
            self._handle.cancel()
        if self._file is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = None


def _timerfd() -> int | None:
    """A timer on the clock of `time.perf_counter`, which is CLOCK_MONOTONIC on Linux alone."""
    if sys.platform != "linux":
        return None
    descriptor = ctypes.CDLL(None, use_errno=True).timerfd_create(_MONOTONIC, _NONBLOCKING)
    return descriptor if descriptor >= 0 else None


class _UnderWay(NamedTuple):
    """A request without an answer: the first of a conversation, or one that follows."""

    number: int
    turn: int
    due: float
    woken: float

    @classmethod
    def after(cls, answer: Answer) -> "_UnderWay":
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
        self._timer = self._make_timer(asyncio.get_running_loop(), self._wake)
        try:
            self._wake()
            await self._sent_all.wait()
        finally:
            self._timer.close()

    def _wake(self) -> None:
        """Begin all requests that are due by now."""
        level = self._level
        while self._next < len(level.due):
            due = level.begin + level.due[self._next]
            woken = self._now()
            if due > woken:
                self._timer.at(due)
                return
            index = level.index[self._next]
            task = asyncio.create_task(self._one(index, due, woken))
            self._tasks[task] = _UnderWay(index * self._level.turns, 0, due, woken)
            task.add_done_callback(self._tasks.pop)
            self._next += 1
        self._sent_all.set()

    async def _one(self, index: int, due: float, woken: float) -> None:
        async with self._turns or nullcontext():
            async for answer in self._client.conversation(index, due, woken):
                self._tell(answer)
                if task := asyncio.current_task():
                    self._tasks[task] = _UnderWay.after(answer)

    def _tell(self, answer: Answer) -> None:
        self._report(structs.replace(answer, sender=self._level.sender) if self._level.sender else answer)

    async def _by_users(self) -> None:
        """Run as many users as requested; each sends when its last request is answered.

        Who was refused waits, as long as the server says or twice as long as before."""
        level = self._level
        await asyncio.sleep(max(0.0, level.begin - self._now()))
        numbers = iter(range(level.first, level.first + level.step * (level.requests or 10**9), level.step))
        users = [asyncio.create_task(self._user(numbers)) for _ in range(level.users)]
        _, late = await asyncio.wait(users, timeout=max(0.0, self._end + level.patience - self._now()))
        for user in late:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)

    async def _user(self, numbers: Iterator[int]) -> None:
        failures = 0
        while (due := self._now()) < self._end:
            index = next(numbers, None)
            if index is None:
                return
            next_one = _UnderWay(index * self._level.turns, 0, due, due)
            try:
                async for answer in self._client.conversation(index, due, due):
                    self._tell(answer)
                    next_one = _UnderWay.after(answer)
                    failures = failures + 1 if answer.error else 0
            except asyncio.CancelledError:
                self._report(self._level.give_up(*next_one, self._now()))
                raise
            if failures:
                pause = answer.wait or min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 20))
                await asyncio.sleep(min(pause, max(0.0, self._end - self._now())))

    async def _give_up(self) -> None:
        """Give up on requests without an answer, and report them as unanswered."""
        left = dict(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        now = self._now()
        for request in left.values():
            self._report(self._level.give_up(*request, now))

    async def _beat(self) -> None:
        while True:
            before = self._now()
            await asyncio.sleep(BEAT)
            late = self._now() - before - BEAT
            if late > STALL:
                self.stalls.append([before + BEAT, late])


def drive(
    level: Level,
    call: Callable[[], object],
    clock: Clock,
    report: Callable[[Answer], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Make the calls of a level.

    Latency counts from when a request is due, so what waits behind another waits inside it. Requests that
    have not begun when patience ends are given up, and say so."""
    last = level.begin + level.end + level.patience
    index, ready = 0, level.begin
    while not is_stopped():
        if level.users:
            due = max(ready, level.begin)
            if due >= level.begin + level.end or (level.requests is not None and index >= level.requests):
                return
        elif index >= len(level.due):
            return
        else:
            due = level.begin + level.due[index]
        while (left := due - clock.now()) > 0:
            if left > SPIN:
                clock.sleep(left - SPIN)
        woken = clock.now()
        # While the call before it was made nobody could wake up: that is waiting, not lateness.
        turn = max(due, ready)
        if woken > last:
            report(level.give_up(level.first + index, 0, due, due, woken))
        else:
            error = detail = ""
            try:
                call()
            except Exception as raised:  # the user's code: whatever it raises is one kind of error
                error, detail = type(raised).__name__, str(raised)
            end = clock.now()
            report(
                Answer(level.first + index, due, due + max(0.0, woken - turn), woken, end, end, error, detail)
            )
        ready = clock.now()
        index += 1
