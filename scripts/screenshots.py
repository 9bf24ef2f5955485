"""Looks at every kind of page in a headless Chromium: `python scripts/screenshots.py FOLDER [NAME ...]`.

NAME is an HTML file or one of `tests/fixtures/pages.py`; all of those are made where none is named. Each is
shown at 1280 and at 400 pixels, light and dark, and as it is printed; pictures go to FOLDER. A fault is a
line: what axe calls serious or critical, a page that scrolls sideways, a print that cuts a table, text in a
column of letters, a section name that is cut, texts of a drawing that cover each other, are cut or too small.
1 if there is one.

Needs chromium or google-chrome, and in the environment: pip install playwright axe-playwright-python.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
A4 = 718
"""Pixels of a sheet between margins of 1 cm."""

# What cannot be seen by axe. Texts may touch, but not cover each other by more than two pixels.
FAULTS = """() => {
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth + 1)
    faults.push(`scrolls sideways: ${root.scrollWidth} of ${root.clientWidth} px`);
  for (const link of document.querySelectorAll("nav a, nav summary")) {
    const { right, width, height } = link.getBoundingClientRect();
    if (right > root.clientWidth + 1 || link.scrollWidth > width + 1 || height > 60)
      if (link.checkVisibility() && width) faults.push(`section name is cut: ${link.textContent}`);
  }
  if (matchMedia("print").matches)
    for (const table of document.querySelectorAll("table"))
      if (table.getBoundingClientRect().right > root.clientWidth + 1)
        faults.push(`print cuts ${table.innerText.slice(0, 60)}`);
  for (const text of document.querySelectorAll("main p, main li, main th, main td, main dd")) {
    const { width, height } = text.getBoundingClientRect();
    const isShort = text.textContent.trim().length < 30;
    const isFolded = text.closest("details:not([open])");
    if (isShort || isFolded) continue;
    if (width && height > 6 * width) faults.push(`squeezed: ${text.textContent.slice(0, 60)}`);
  }
  for (const svg of document.querySelectorAll("main svg")) {
    const whole = svg.getBoundingClientRect();
    if (!whole.width) continue;
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => text.getBoundingClientRect());
    const scale = svg.viewBox.baseVal?.width ? whole.width / svg.viewBox.baseVal.width : 1;
    texts.forEach((text, at) => {
      const a = boxes[at], words = text.textContent;
      const isBeside = a.left < whole.left - 2 || a.right > whole.right + 2;
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 7.4) faults.push(`${size.toFixed(1)} px: ${words}`);
      if (isBeside || a.top < whole.top - 3 || a.bottom > whole.bottom + 3) faults.push(`cut: ${words}`);
      for (let other = at + 1; other < texts.length; other++) {
        const b = boxes[other];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 4 * scale) faults.push(`covered: ${words} / ${texts[other].textContent}`);
      }
    });
  }
  return faults;
}"""


class View(NamedTuple):
    """A way to look at a page."""

    name: str
    width: int
    scheme: str = "light"
    media: str = "screen"


VIEWS = (
    View("1280-light", 1280),
    View("1280-dark", 1280, "dark"),
    View("400-light", 400),
    View("400-dark", 400, "dark"),
    View("print", A4, media="print"),
)


def pages(names: list[str], folder: Path) -> Iterator[Path]:
    """The files to look at; those that were named by kind are made."""
    yield from (Path(name).resolve() for name in names if name.endswith(".html"))
    kinds = [name for name in names if not name.endswith(".html")]
    if names and not kinds:
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from fixtures.pages import documents
    from laptime.reports.page.render import render

    makers = documents()
    for name in kinds or makers:
        file = folder / f"{name}.html"
        file.write_text(render(makers[name]()), encoding="utf-8")
        yield file


def faults(page: Page) -> list[str]:
    """What is wrong with a page as it is shown now."""
    from axe_playwright_python.sync_playwright import Axe

    found: list[str] = page.evaluate(FAULTS)
    for each in Axe().run(page).response["violations"]:
        if each["impact"] in ("serious", "critical"):
            found += [
                f"axe {each['id']}: {node['target'][0]} {node['html'][:90]}" for node in each["nodes"][:3]
            ]
    return found


def looked_at(browser: Browser, file: Path, view: View, folder: Path) -> list[str]:
    """Show a page, keep a picture of it."""
    settings: dict[str, Any] = {"color_scheme": view.scheme, "viewport": {"width": view.width, "height": 900}}
    page = browser.new_page(**settings)
    page.emulate_media(media=view.media)  # type: ignore[arg-type]
    page.goto(file.as_uri())
    found = faults(page)
    page.screenshot(path=folder / f"{file.stem}.{view.name}.png", full_page=True)
    page.close()
    return found


def main(*arguments: str) -> int:
    """Look at all, or at those that are named; 2 without a browser."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not arguments or binary is None:
        print(f"error: {'no folder was named' if binary else 'no browser was found'}", file=sys.stderr)
        print(__doc__, file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    folder, count = Path(arguments[0]), 0
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        for file in pages(list(arguments[1:]), folder):
            for view in VIEWS:
                found = looked_at(browser, file, view, folder)
                count += len(found)
                print(f"{file.stem:20} {view.name:10} {len(found)} faults", *found, sep="\n    ")
        browser.close()
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
