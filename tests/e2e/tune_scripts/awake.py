"""An optimization for one script, `sleepy.py`: its dataset does not sleep."""

from __future__ import annotations

import os

from laptime.tuning.optimization import Optimization


def apply(loop, options):
    """A variable that the dataset looks at."""

    def switch():
        os.environ["AWAKE"] = "1"
        return lambda: os.environ.pop("AWAKE", None)

    loop.process(switch)


def edit(script, options):
    """The same at the start."""
    script.at_start('os.environ["AWAKE"] = "1"', "import os")


OPTIMIZATION = Optimization(
    title="no sleep",
    numerics="exact",
    saves={"data": 1.0},
    live=True,
    needs=frozenset({"loader"}),
    apply=apply,
    edit=edit,
)
