"""Options that sessions on a script, a model and a server share."""

from functools import partial
from typing import Annotated

from laptime.kit import typed, units
from laptime.kit.options import Option

Budget = Annotated[
    float, Option("Time limit of the whole session: 90s, 10m, 1h.", "TIME", read=units.seconds)
]
Timeout = Annotated[float, Option("Time limit of one trial.", "TIME", read=units.seconds)]
MaxMemory = Annotated[
    int | None,
    Option(
        "Memory limit of a trial, or of a model's process: 8GB. [default of trials: what is free]",
        "SIZE",
        read=units.size,
    ),
]
Certify = Annotated[bool, Option("Keep the error rate over all candidates and looks together; slower.")]
Resume = Annotated[bool, Option("Continue the last session of the same script, model or server.")]
DryRun = Annotated[bool, Option("Only diagnose; list what would be tried and how long it would take.")]


def _names(help_text: str, room: str) -> Option:
    """An option that takes names of a room of the registry."""
    return Option(help_text, "NAME,...", read=typed.names, repeatable=True, completes=room)


only = partial(_names, "Try only these optimizations. Repeatable.")
skip = partial(_names, "Leave these optimizations out. Repeatable.")
