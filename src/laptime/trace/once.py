"""Remembering what several tables need, for as long as the trace lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from laptime.trace.columns import Trace
from laptime.trace.view import View

Found = TypeVar("Found")


def once(find: Callable[[View], Found]) -> Callable[[View], Found]:
    """Work this out once a trace. Links follow from the trace; what depends on steps must not use this."""
    results: WeakKeyDictionary[Trace, Found] = WeakKeyDictionary()

    @wraps(find)
    def found(view: View) -> Found:
        if view.trace not in results:
            results[view.trace] = find(view)
        return results[view.trace]

    return found
