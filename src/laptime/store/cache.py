"""Measurements of a machine, until the machine changes: small JSON files in the user's cache folder.

    $LAPTIME_CACHE, else $XDG_CACHE_HOME/laptime, else ~/.cache/laptime (macOS: ~/Library/Caches/laptime)

A file that cannot be read or written counts as not there: a cache is never a reason to fail."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from laptime.store.folder import write_whole


def folder() -> Path:
    """Return where the cache lies; not made yet."""
    if named := os.environ.get("LAPTIME_CACHE"):
        return Path(named)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "laptime"
    home = Path("~").expanduser()
    return home / "Library/Caches/laptime" if sys.platform == "darwin" else home / ".cache/laptime"


def get(kind: str, key: str) -> dict[str, Any] | None:
    """The document under this kind and key; None if there is none, or it cannot be read."""
    try:
        document = json.loads(_file(kind, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def put(kind: str, key: str, value: dict[str, Any]) -> bool:
    """Write a document, whole or not at all; whether that worked."""
    file = _file(kind, key)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(value, indent=1).encode())
    except OSError:
        return False
    return True


def _file(kind: str, key: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", f"{kind}-{key}")
    return folder() / f"{safe}.json"
