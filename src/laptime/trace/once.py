"""A cache of what several tables need, which lives as long as its trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from laptime.trace.columns import Trace
from laptime.trace.view import View

Result = TypeVar("Result")


def once(find: Callable[[View], Result]) -> Callable[[View], Result]:
    """Compute the function once per trace. Only for what follows from the trace alone, not from its steps."""
    results: WeakKeyDictionary[Trace, Result] = WeakKeyDictionary()

    @wraps(find)
    def found(view: View) -> Result:
        if view.trace not in results:
            results[view.trace] = find(view)
        return results[view.trace]

    return found
