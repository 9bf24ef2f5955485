"""What was measured of a machine and holds until the machine changes: small JSON files in the user's cache.

    $LAPTIME_CACHE, else $XDG_CACHE_HOME/laptime, else ~/.cache/laptime (macOS: ~/Library/Caches/laptime)

A file that cannot be read or written counts as not there: a cache is never a reason to fail.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Where the cache lies; not made yet."""
    if own := os.environ.get("LAPTIME_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "laptime"
    home = Path("~").expanduser()
    return home / "Library/Caches/laptime" if sys.platform == "darwin" else home / ".cache/laptime"


def get(kind: str, key: str) -> dict[str, Any] | None:
    """What was put under this kind and key; None when nothing was, or it cannot be read."""
    try:
        found = json.loads(_file(kind, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def put(kind: str, key: str, value: dict[str, Any]) -> bool:
    """Keep a document, whole or not at all; whether that worked."""
    file = _file(kind, key)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(value, out, indent=1)
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError:
        return False
    return True


def _file(kind: str, key: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", f"{kind}-{key}")
    return folder() / f"{safe}.json"
