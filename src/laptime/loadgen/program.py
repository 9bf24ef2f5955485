"""Requests to a program of this process: one call at a time, in the order in which they are due."""

from __future__ import annotations

from collections.abc import Callable

from laptime.kit.clock import Clock
from laptime.loadgen.messages import Level
from laptime.records.requests import Answer

SPIN = 0.0005
"""Seconds before a request is due from which on it is waited for without sleeping: a sleep ends late."""


def drive(
    level: Level,
    call: Callable[[], object],
    clock: Clock,
    report: Callable[[Answer], None],
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Make the calls of a level.

    Latency counts from when a request is due, so what waits behind another waits inside it. Requests that
    have not begun when patience ends are given up, and say so.
    """
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
        _wait(due, clock)
        woken = clock.now()
        # While the call before it was made nobody could wake up: that is waiting, not lateness.
        turn = max(due, ready)
        if woken > last:
            report(level.given_up(level.first + index, 0, due, due, woken))
        else:
            report(_called(level.first + index, due, due + max(0.0, woken - turn), woken, call, clock))
        ready = clock.now()
        index += 1


def _called(
    number: int, due: float, woken: float, sent: float, call: Callable[[], object], clock: Clock
) -> Answer:
    error = detail = ""
    try:
        call()
    except Exception as raised:  # the user's code: whatever it raises is one kind of error
        error, detail = type(raised).__name__, str(raised)
    end = clock.now()
    return Answer(number, due, woken, sent, end, end, error, detail)


def _wait(due: float, clock: Clock) -> None:
    while (left := due - clock.now()) > 0:
        if left > SPIN:
            clock.sleep(left - SPIN)
