"""Users of a level begin at any number of request: the next level sends what none before it has sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from laptime.loadgen.driver import Driver
from laptime.loadgen.messages import Level
from laptime.records.requests import Answer


class Instant:
    """Answers at once."""

    async def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        yield await self.send(index, due, woken)

    async def send(self, index: int, due: float, woken: float) -> Answer:
        await asyncio.sleep(0)
        return Answer(index, due, woken, woken, woken, time.perf_counter())

    def close(self) -> None:
        pass


def test_requests_of_users_are_numbered_from_the_first() -> None:
    answers: list[Answer] = []
    level = Level(begin=time.perf_counter(), end=60.0, users=2, requests=5, first=97)
    asyncio.run(Driver(Instant(), level, now=time.perf_counter, report=answers.append).run())
    assert sorted(answer.number for answer in answers) == [97, 98, 99, 100, 101]
