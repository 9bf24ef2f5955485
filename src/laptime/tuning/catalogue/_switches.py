"""Switches of the process that a trial sets, and puts back when the change is taken off."""

import os
from collections.abc import Callable
from typing import Any


def set_attribute(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Set an attribute; gives the way back."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


def set_environment(name: str, value: str) -> Callable[[], None]:
    """Set a variable for this process and those that it starts; gives the way back."""
    before = os.environ.get(name)
    os.environ[name] = value

    def back() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    return back
