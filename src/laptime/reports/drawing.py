"""What a document can show as a chart."""

from __future__ import annotations

from typing import Any, Protocol

from markupsafe import Markup


class Drawing(Protocol):
    """A `page.plot.Plot`, or anything that can do the same."""

    def drawn(self, width: float) -> Markup:
        """It for a width in pixels: the page has one for wide screens, and one for phones."""
        ...

    def keys(self) -> Markup:
        """What its marks mean, under it."""
        ...

    def points(self) -> Any:
        """Data for tooltips of it for wide screens; None where its marks have titles."""
        ...
