"""`local:N`: N nodes on this machine, to try what a cluster would do."""

import sys

from laptime.kit.errors import UsageError
from laptime.launch.fleet import NODE, Machine


def machines(text: str) -> list[Machine]:
    """This machine, so many times. Raises UsageError: the text is no number from 1 to 64."""
    count = int(text or "1") if (text or "1").isdigit() else 0
    if not 1 <= count <= 64:
        raise UsageError(f"local:{text} is not a number of nodes", why="1 to 64 are possible", next="local:3")
    words = (sys.executable, *NODE)
    return [Machine(f"local-{number}", words, "local", is_here=True) for number in range(1, count + 1)]
