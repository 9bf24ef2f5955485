"""An optimization for one script, `sleepy.py`: its dataset does not sleep."""

from __future__ import annotations

import os

TITLE = "no sleep"
NUMERICS = "exact"
TOGGLE = "live"
NEEDS = frozenset({"loader"})
GIVES = frozenset({"awake"})
CONFLICTS = frozenset()


def propose(loop_profile):
    """Always."""
    return [{}]


def bound(loop_profile, options):
    """All of the data."""
    return loop_profile.share("data")


def apply(loop, options):
    """A variable that the dataset looks at."""

    def switch():
        os.environ["AWAKE"] = "1"
        return lambda: os.environ.pop("AWAKE", None)

    loop.process(switch)


def edit(script, options):
    """The same at the start."""
    script.at_start('os.environ["AWAKE"] = "1"', "import os")
