"""Makes docs/pictures from real reports, in a headless Chromium: `python scripts/pictures.py`, or with names.

Each picture is a part of a page at 1280 pixels, below 200 kB. Needs chromium or google-chrome, and Pillow.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/pictures"
LIMIT = 200_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TRACE = str(ROOT / "tests/data/traces/h100_bert_small.json.gz")
MEMORY = "snapshot.pickle"
"""In the folder of the pictures: of tests/fixtures/memory_snapshots.py."""


class Picture(NamedTuple):
    """What makes a report, and how much of it is seen, from which pixel on."""

    command: tuple[str, ...]
    height: int
    top: int = 0


WANTED = {
    "trace": Picture(("trace", TRACE), 780),
    "trace_timeline": Picture(("trace", TRACE), 700, top=790),
    "trace_calls": Picture(("trace", TRACE), 880, top=1750),
    "trace_memory": Picture(("trace", MEMORY), 440, top=490),
}


def taken(name: str, picture: Picture, browser: str, folder: Path) -> Path:
    """The picture of one report.

    Raises:
        ValueError: it is too large for a page.
    """
    image = importlib.import_module("PIL.Image")
    PICTURES.mkdir(exist_ok=True)
    report, file = folder / f"{name}.html", PICTURES / f"{name}.png"
    laptime = [sys.executable, "-m", "laptime", *picture.command, "--no-save", "-q", "-o", str(report)]
    subprocess.run(laptime, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    size = f"--window-size=1280,{picture.top + picture.height}"
    own = f"--user-data-dir={folder / 'browser'}"
    words = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        own,
        size,
        "--virtual-time-budget=3000",
    ]
    subprocess.run(
        [browser, *words, f"--screenshot={file}", report.as_uri()],
        check=True,
        capture_output=True,
    )
    if picture.top:
        whole = image.open(file)
        whole.crop((0, picture.top, *whole.size)).save(file, optimize=True)
    if file.stat().st_size > LIMIT:
        raise ValueError(f"{file.name} has {file.stat().st_size:,} bytes; at most {LIMIT:,}")
    return file


def main(*names: str) -> int:
    """Take all, or those that are named; 2 without a browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        looked_for = ", ".join(BROWSERS)
        print(f"error: no browser was found\nwhy:   looked for {looked_for}", file=sys.stderr)
        print("next:  install chromium", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT / "tests"))
    snapshots = importlib.import_module("fixtures.memory_snapshots")
    with tempfile.TemporaryDirectory() as folder:
        snapshots.written(Path(folder), snapshots.training()).rename(Path(folder) / MEMORY)
        for name in names or WANTED:
            file = taken(name, WANTED[name], browser, Path(folder))
            print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
