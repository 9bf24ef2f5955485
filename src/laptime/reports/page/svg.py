"""Drawing without a library: elements, lines and marks as SVG text. Colours come from the page's style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def line(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Straight lines from point to point."""
    return el("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def spot(x: float, y: float, shape: str, class_: str, title: str) -> Markup:
    """One mark, and what is told where a mouse rests on it."""
    return el("path", el("title", title), d=f"M{x:.1f} {y:.1f}{SHAPES[shape]}", class_=class_)


def legend(items: Iterable[tuple[str, str, Sequence[str | Markup]]]) -> Markup:
    """A list of marks: the shape and class of each, and what stands beside it."""
    rows = []
    for shape, class_, texts in items:
        mark = el("path", d=f"M8 8{SHAPES[shape]}", class_=class_)
        key = el("svg", mark, viewBox="0 0 16 16", class_="key", aria_hidden="true")
        rows.append(el("li", key, *texts))
    return el("ul", *rows, class_="legend")


def dots(points: Iterable[tuple[float, float]], shape: str) -> str:
    """One path with a mark at every point: far smaller than an element each."""
    return "".join(f"M{_number(x)} {_number(y)}{shape}" for x, y in points)


SHAPES = {
    "dot": "h0",
    "triangle": "m0-4l4 7h-8z",
    "cross": "m-3.5-3.5l7 7m0-7l-7 7",
    "diamond": "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "square": "m-3.5-3.5h7v7h-7z",
    "ring": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
}
