"""What text reports are printed on before they are text."""

from __future__ import annotations

from io import StringIO

from rich.console import Console


def paper(*, color: bool) -> Console:
    """A console to capture lines from: marks nothing up by itself, breaks no line."""
    return Console(
        file=StringIO(),
        width=10_000,  # lines are broken here, not by rich
        color_system="standard" if color else None,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
