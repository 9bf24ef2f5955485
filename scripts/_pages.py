"""Pages of docs/ that are written from the code: one file each, sections under `##`, written or compared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def run(name: str, made: Callable[[], str], *, of: str) -> int:
    """Write docs/`name`.md, or with `--check` on the command line only compare; 1 when it is out of date.

    Args:
        of: what its sections are, in the plural.
    """
    path, text = DOCS / f"{name}.md", made().rstrip() + "\n"
    if "--check" in sys.argv[1:]:
        fresh = path.exists() and path.read_text(encoding="utf-8") == text
        print(f"docs/{name}.md is up to date" if fresh else f"docs/{name}.md is out of date; next: make docs")
        return 0 if fresh else 1
    path.write_text(text, encoding="utf-8")
    print(f"docs/{name}.md: {text.count('## `')} {of}")
    return 0
