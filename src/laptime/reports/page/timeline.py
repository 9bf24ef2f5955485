"""The timeline as the page's script wants it: columns of small numbers, compressed, as text."""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from typing import Any

from laptime.records.timeline import Timeline
from laptime.reports._words import plain

NAME = 600
"""Characters of a name: some kernels have names as long as this page."""


def packed(timeline: Timeline) -> str:
    """Deflated JSON in base64: 12,000 ranges in about 150 KB; nothing in it can be markup."""
    text = json.dumps(_plain(timeline), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def _plain(timeline: Timeline) -> dict[str, Any]:
    """Starts as differences to the one before: small numbers compress well. Rows stay in their order."""
    return {
        "step": timeline.step,
        "dur": max(timeline.dur_ns, 1),
        "names": [plain(name[:NAME]) for name in timeline.names],
        "categories": [plain(name) for name in timeline.categories],
        "lanes": [
            {
                "kind": lane.kind,
                "name": plain(lane.name),
                "start": _differences(lane.start_ns),
                "dur": lane.dur_ns,
                "text": lane.name_index,
                "depth": lane.depth,
                "category": lane.category,
            }
            for lane in timeline.lanes
        ],
        "arrows": timeline.arrows,
    }


def _differences(numbers: list[int]) -> list[int]:
    return [b - a for a, b in itertools.pairwise([0, *numbers])]
