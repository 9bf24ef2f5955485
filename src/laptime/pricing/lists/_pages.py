"""Lists in JSON that come page by page."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import IO, Any


def pages(url: str, open_url: Callable[[str], IO[bytes]], most: int) -> list[dict[str, Any]]:
    """The items of all pages, each of which tells the next at `NextPageLink`; at most so many.
    Raises ValueError, KeyError: a page is none; a list leads to another host.
    """
    host = url.split("/")[2].partition(":")[0]
    items: list[dict[str, Any]] = []
    for _ in range(most):
        with closing(open_url(url)) as answer:
            document = json.loads(answer.read())
        items += document["Items"]
        url = document.get("NextPageLink") or ""
        if not url:
            break
        if not url.startswith("https://") or url.split("/")[2].partition(":")[0] != host:
            raise ValueError(f"it goes on at {url[:80]!r}")
    return items
