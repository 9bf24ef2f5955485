"""Drawing without a library: elements and shapes as SVG text. Colours come from the page's style."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def el(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """An element; text is escaped, `stroke_width` becomes `stroke-width`, None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 (escaped)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def drawing(width: float, height: float, *children: Markup, label: str, class_: str = "chart") -> Markup:
    """A drawing that scales with the page and says to a screen reader what it shows."""
    return el(
        "svg",
        el("title", label),
        *children,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        class_=class_,
    )


def dots(points: Iterable[tuple[float, float]], shape: str) -> str:
    """One path with a mark at every point: far smaller than an element each."""
    return "".join(f"M{_number(x)} {_number(y)}{shape}" for x, y in points)


SHAPES = {
    "dot": "h0",
    "dash": "m-7 0h14",
    "triangle": "m0-4l4 7h-8z",
    "cross": "m-3.5-3.5l7 7m0-7l-7 7",
    "diamond": "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "square": "m-3.5-3.5h7v7h-7z",
    "disc": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "ring": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
}
