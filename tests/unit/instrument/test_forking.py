"""What a forked child does first, and that nobody is kept alive for it."""

from __future__ import annotations

import gc
import os
import weakref

from laptime.instrument.importing import in_children


class Owner:
    """Notes in which process it was called."""

    def __init__(self) -> None:
        self.called = 0

    def forked(self) -> None:
        self.called += 1


def in_a_child(owner: Owner | None) -> int:
    """How often it was called in a child: the child's exit status."""
    child = os.fork()
    if child == 0:
        os._exit(owner.called if owner is not None else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_every_child_calls_it_and_this_process_never() -> None:
    owner = Owner()
    in_children(owner.forked)
    assert [in_a_child(owner), in_a_child(owner), owner.called] == [1, 1, 0]


def test_its_owner_is_not_kept() -> None:
    owner = Owner()
    weak = weakref.ref(owner)
    in_children(owner.forked)
    del owner
    gc.collect()
    assert weak() is None
    assert in_a_child(None) == 0
