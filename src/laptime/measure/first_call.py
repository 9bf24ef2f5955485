"""Facts of the first call that hold for all: outputs that are not computed yet, inputs that change."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

LOOKED = 1000  # parts of a list or mapping


def _parts(output: list[Any] | tuple[Any, ...] | Mapping[Any, Any]) -> Iterator[Any]:
    return islice(output.values() if isinstance(output, Mapping) else output, LOOKED)


def kind(output: Any) -> str:
    """The type of what has yet to be computed in an output; "" if it is all there."""
    if isinstance(output, list | tuple | Mapping):
        return next((found for part in _parts(output) if (found := kind(part))), "")
    is_late = isinstance(output, Iterator) or inspect.isawaitable(output) or inspect.isasyncgen(output)
    return type(output).__name__ if is_late or _waits(output) else ""


def _waits(output: Any) -> Callable[[], Any] | None:
    """The function that waits for a future of threads, processes or PyTorch."""
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


def finite(output: Any) -> bool | None:
    """Whether all floats of an output, in arrays, tensors and containers, are finite; None without any."""
    if isinstance(output, list | tuple | Mapping):
        told = [found for part in _parts(output) if (found := finite(part)) is not None]
        return all(told) if told else None
    if isinstance(output, float | complex):
        return math.isfinite(abs(output))
    dtype = getattr(output, "dtype", None)
    with suppress(Exception):  # sparse and nested ones do not tell
        if getattr(dtype, "is_floating_point", False) is True or getattr(dtype, "is_complex", False) is True:
            return bool(output.isfinite().all()) if output.numel() else None
        if getattr(dtype, "kind", "") in ("f", "c") and output.size:
            return bool(sys.modules["numpy"].isfinite(output).all())
    return None


def has_changed(kept: Any, now: Any, within: tuple[int, ...] = ()) -> bool:
    """Whether inputs are no longer what a copy of them holds. within: objects that are compared already."""
    if kept is now or id(kept) in within:
        return False
    within += (id(kept),)
    if isinstance(kept, Mapping):
        is_other = not isinstance(now, Mapping) or [*kept] != [*now]
        return is_other or any(has_changed(part, now[key], within) for key, part in kept.items())
    if isinstance(kept, list | tuple):
        is_other = not isinstance(now, list | tuple) or len(kept) != len(now)
        return is_other or any(has_changed(*pair, within) for pair in zip(kept, now, strict=True))
    if hasattr(kept, "shape"):
        same = kept.shape == now.shape and kept.dtype == now.dtype
        return not same or not bool(((kept == now) | ((kept != kept) & (now != now))).all())
    if hasattr(kept, "__dict__") and not callable(kept):
        return type(kept) is not type(now) or has_changed(vars(kept), vars(now), within)
    return isinstance(kept, bytearray | set | str | int | float) and kept == kept and bool(kept != now)
