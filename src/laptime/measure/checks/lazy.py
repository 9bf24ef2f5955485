"""Did calls return before their work was done: a generator, a coroutine, a future? The rest is timed, too."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it: the rest of the work is in the number."""
    if not case.details.inputs.get("lazy"):
        return None
    sentence = (
        "a call returns before its work is done (a generator, coroutine or future): timed with all of it"
    )
    return Check("lazy", "note", sentence, "call what makes the first part only, to time that")


# Beside the calls.


def kind(output: Any) -> str:
    """The type of what has yet to be computed in an output; "" if it is all there."""
    if isinstance(output, list | tuple):
        return next((found for part in output if (found := kind(part))), "")
    if isinstance(output, Mapping):
        return kind(list(output.values()))
    is_late = isinstance(output, Iterator) or inspect.isawaitable(output) or inspect.isasyncgen(output)
    return type(output).__name__ if is_late or _waits(output) else ""


def _waits(output: Any) -> Callable[[], Any] | None:
    """What waits for a future of threads, processes or PyTorch."""
    if inspect.isawaitable(output) or not callable(getattr(output, "add_done_callback", None)):
        return None
    return getattr(output, "result", None) or getattr(output, "wait", None)


def whole(output: Any) -> Any:
    """The output with all of it computed; as it is where nothing is late."""
    if not kind(output):
        return output
    if isinstance(output, Mapping):
        return {name: whole(part) for name, part in output.items()}
    if inspect.isasyncgen(output):
        return _loop().run_until_complete(_collected(output))
    if inspect.isawaitable(output):
        return whole(_loop().run_until_complete(_awaited(output)))
    if isinstance(output, list | tuple | Iterator):
        return [whole(part) for part in output]
    wait = _waits(output)
    return output if wait is None else whole(wait())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _collected(parts: Any) -> list[Any]:
    return [part async for part in parts]


async def _awaited(output: Any) -> Any:
    return await output
