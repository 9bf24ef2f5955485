"""Constructor calls by name: what a script gave, as its signature binds it, and the call made of it again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def bound(
    function: Callable[..., Any], owner: Any, args: Any, kwargs: Any, *, lists: bool = False
) -> dict[str, Any]:
    """Arguments by name, without `self` and without those that were not given; `**rest` is not nested.

    Args:
        function: the method that is called. owner: its `self`. args, kwargs: what it is given.
        lists: iterators (`model.parameters()`) become lists, so that they can be looked at more than once.

    Raises:
        TypeError: the function cannot be called so.
    """
    signature = _signature(function)
    found = signature.bind(owner, *args, **kwargs).arguments
    names = list(signature.parameters)
    found.pop(names[0], None)
    rest = next(
        (name for name in names if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD), ""
    )
    named = {**found, **found.pop(rest, {})} if rest in found else dict(found)
    named.pop(rest, None)
    if lists:
        named = {key: list(value) if isinstance(value, Iterator) else value for key, value in named.items()}
    return named


def again(function: Callable[..., Any], owner: Any, arguments: dict[str, Any]) -> Any:
    """Call it with arguments by name; those that can only be given by position are."""
    parameters = list(_signature(function).parameters.values())[1:]
    named = dict(arguments)
    several = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    args: list[Any] = []
    for each in parameters:
        is_by_position = each.kind is inspect.Parameter.POSITIONAL_ONLY or several in named
        if each.name not in named or each.kind not in _POSITIONAL or not is_by_position:
            break
        args.append(named.pop(each.name))
    args.extend(named.pop(several, ()) if several else ())
    return function(owner, *args, **named)
