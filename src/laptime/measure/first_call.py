"""Facts of the first call that hold for all: outputs that are not computed yet, inputs that change."""

import copy
import copyreg
import inspect
import io
import math
import sys
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator, Mapping, Set, ValuesView
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from threading import Lock, RLock
from typing import Any

from laptime.kit.errors import TargetError, UserCodeError

LOOKED, DEEP, DEEPEST = 1000, 8, 40  # parts of a list, mapping or object; levels of outputs, of inputs
ENDLESS = 1_000_000  # parts of an iterator; then it has no end
WAITS = {
    "add_done_callback": ("result", "wait"),
    "successful": ("get",),
    "is_alive": ("join",),
    "poll": ("wait",),
}
"""What futures, results of pools, threads and processes are known by, and what waits for them."""
_LISTS = (list, tuple, deque, Set, ValuesView)
_LOCKS = type(Lock()), type(RLock())


def _parts(output: Any, most: int | None = LOOKED) -> dict[Any, Any]:
    """Return the contents of a container or an object of the user's, by index, key or name."""
    if isinstance(output, _LISTS):
        return dict(islice(enumerate(output), most))
    if isinstance(output, Mapping):
        return dict(islice(output.items(), most))
    if callable(output) or hasattr(output, "shape"):
        return {}
    if is_dataclass(output):
        return {field.name: getattr(output, field.name) for field in fields(output)}
    return dict(islice(getattr(output, "__dict__", {}).items(), most))


def kind(output: Any, deep: int = DEEP) -> str:
    """The type of what has yet to be computed in an output; "" if it is all there."""
    is_late = isinstance(output, AsyncIterable | Iterator) and not isinstance(output, io.IOBase)
    if is_late or inspect.isawaitable(output) or _waits(output):
        return type(output).__name__
    return next((found for part in _parts(output).values() if deep and (found := kind(part, deep - 1))), "")


def _waits(output: Any) -> Callable[[], Any] | None:
    """The function that waits for a future, a thread or a process."""
    names = (
        wait for known, waits in WAITS.items() if callable(getattr(output, known, None)) for wait in waits
    )
    return next((found for name in names if callable(found := getattr(output, name, None))), None)


def whole(output: Any, deep: int = DEEP) -> Any:
    """The output with all of it computed; as it is if nothing is late.
    Raises UserCodeError: an iterator has no end."""
    if not kind(output, deep):
        return output
    if isinstance(output, AsyncIterable) or inspect.isawaitable(output):
        return whole(_finish(_await(output)))
    if wait := _waits(output):
        return whole(wait())
    if isinstance(output, Iterator):
        found = [whole(part) for part in islice(output, ENDLESS)]
        if len(found) < ENDLESS:
            return found
        raise UserCodeError(
            f"a call returns an iterator without an end: {ENDLESS:,} parts came",
            why="a call is timed with everything that it returns, and this never ends",
            next="return itertools.islice(..., N), or the code that makes one part",
        )
    parts = {name: whole(part, deep - 1) for name, part in _parts(output, None).items()}
    if isinstance(output, (Mapping, *_LISTS)):
        return parts if isinstance(output, Mapping) else [*parts.values()]
    changed = copy.copy(output)
    for name, part in parts.items():
        object.__setattr__(changed, name, part)  # frozen ones, too
    return changed


@cache
def _loop() -> Any:
    import asyncio  # 30 ms that other programs do without

    return asyncio.new_event_loop()


def _finish(output: Coroutine[Any, Any, Any]) -> Any:
    """Run it in a loop of its own; that of a notebook, in which cells run, is set aside meanwhile."""
    import asyncio

    outer = asyncio._get_running_loop()
    task = asyncio.current_task() if outer else None
    if outer and task:
        asyncio.tasks._leave_task(outer, task)
    asyncio._set_running_loop(None)
    try:
        return _loop().run_until_complete(output)
    finally:
        asyncio._set_running_loop(outer)
        if outer and task:
            asyncio.tasks._enter_task(outer, task)


async def _await(output: Any) -> Any:
    return await output if inspect.isawaitable(output) else [part async for part in output]


def finite(output: Any, deep: int = DEEP) -> bool | None:
    """Whether all floats of an output, in arrays, tensors and containers, are finite; None without any."""
    if isinstance(output, float | complex):
        return math.isfinite(abs(output))
    dtype = getattr(output, "dtype", None)
    with suppress(Exception):  # sparse and nested ones do not say
        if getattr(dtype, "is_floating_point", False) is True or getattr(dtype, "is_complex", False) is True:
            return bool(output.isfinite().all()) if output.numel() else None
        if getattr(dtype, "kind", "") in ("f", "c") and output.size:
            return bool(sys.modules["numpy"].isfinite(output).all())
    parts = _parts(output).values() if deep else ()
    told = [found for part in parts if (found := finite(part, deep - 1)) is not None]
    return all(told) if told else None


def copy_inputs(inputs: Any) -> Any:
    """Inputs that nothing else holds; locks and what cannot be copied (a generator, a socket) are shared."""
    with suppress(Exception):
        copyreg.dispatch_table.update(dict.fromkeys(_LOCKS, lambda lock: ""))  # a name: the object itself
        try:
            return copy.deepcopy(inputs)
        finally:
            for kind in _LOCKS:
                del copyreg.dispatch_table[kind]
    if type(inputs) in (list, tuple):
        return type(inputs)(copy_inputs(part) for part in inputs)
    return {key: copy_inputs(part) for key, part in inputs.items()} if type(inputs) is dict else inputs


def has_changed(kept: Any, now: Any, within: tuple[int, ...] = ()) -> bool:
    """Whether inputs are no longer what a copy of them holds. within: objects that are compared already.
    Raises TargetError: they hold a generator that the call has begun, and no call can have again."""
    if inspect.isgenerator(now) and inspect.getgeneratorstate(now) != inspect.GEN_CREATED:
        raise TargetError(
            "the inputs hold a generator, and one call used it up",
            why="the next call would find less in it, and do other work",
            next="give a list of what it makes, or make the generator inside the function",
        )
    if kept is now or id(kept) in within or len(within) > DEEPEST:
        return False
    within += (id(kept),)
    if isinstance(kept, Mapping):
        is_other = not isinstance(now, Mapping) or [*kept] != [*now]
        return is_other or any(has_changed(part, now[key], within) for key, part in kept.items())
    if isinstance(kept, list | tuple):
        is_other = not isinstance(now, list | tuple) or len(kept) != len(now)
        return is_other or any(has_changed(*pair, within) for pair in zip(kept, now, strict=True))
    if hasattr(kept, "shape") and (same := _is_equal(kept, now)) is not None:
        return not same
    if isinstance(kept, bytes | bytearray | set | frozenset | str | int | float):
        return kept == kept and bool(kept != now)
    if callable(kept):
        return False
    return type(kept) is not type(now) or has_changed(_state(kept), _state(now), within)


def _is_equal(kept: Any, now: Any) -> bool | None:
    """Compare arrays, tensors and tables; None for those that cannot be compared (sparse and nested ones)."""
    with suppress(Exception):
        if not hasattr(kept, "dtype"):
            return bool(kept.equals(now))
        same = kept.shape == now.shape and kept.dtype == now.dtype
        return same and bool(((kept == now) | ((kept != kept) & (now != now))).all())
    return None


def _state(value: Any) -> list[Any]:
    """Return the parts that a copy is made of: fields, slots, places of iterators, parts of a deque."""
    made: list[Any] = [getattr(value, "__dict__", None)]
    with suppress(Exception):  # a lock, a socket: it cannot be copied either
        _, *made = value.__reduce_ex__(4)
    return [[*part] if isinstance(part, Iterator) else part for part in made]
