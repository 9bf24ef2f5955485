"""What a forked child of this process does first, for as long as its owner lives: Python keeps such functions
for ever, and with them everything that they hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


def in_children(method: Callable[[], Any]) -> None:
    """Call this bound method in every child that is forked from now on, while its object is there."""
    weak = WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)
