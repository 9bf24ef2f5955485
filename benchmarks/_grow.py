"""Makes a large, still consistent trace out of a small one, by putting shifted copies behind each other.

Every copy has its own times, correlations, flow and Python ids, and goes on counting the steps. The text is
written as PyTorch's exporters write it, one event a line, so that its size and its events are in a natural
proportion.

python benchmarks/_grow.py IN.json[.gz] OUT.json MEGABYTES
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

IDS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
)
STEP = re.compile(r"ProfilerStep\s*#(\d+)")
GAP = 100
"""Microseconds between two copies."""


def grow(source: Path, into: Path, megabytes: float) -> tuple[int, int]:
    """Write copies until the file has this size; how many copies, and how many events."""
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    document = json.loads(raw, strict=False)
    document = document if isinstance(document, dict) else {"traceEvents": document}
    events = document.pop("traceEvents")
    document.setdefault("distributedInfo", {"rank": 0})  # one of the older tools asks for it
    once = [event for event in events if event.get("ph") == "M"]
    again = [
        event for event in events if event.get("ph") in ("X", "s", "f", "i") and event.get("cat") != "Trace"
    ]
    again = [event for event in again if event.get("name") != "Record Window End"]
    first = min(event["ts"] for event in again)
    last = max(event["ts"] + event.get("dur", 0) for event in again)
    steps = [int(found.group(1)) for event in again if (found := STEP.fullmatch(str(event.get("name"))))]
    stride = {
        "ts": last - first + GAP,
        "step": max(steps, default=0) - min(steps, default=0) + 1,
        "id": 1 + max(_ids(again), default=0),
    }
    encode = json.JSONEncoder(separators=(", ", ": ")).encode
    written = copies = 0
    with into.open("w", encoding="utf-8") as file:
        head = encode(document)
        written += file.write(f'{head[:-1]}, "traceEvents": [\n' if len(head) > 2 else '{"traceEvents": [\n')
        written += file.write(",\n".join(encode(event) for event in once))
        size = 0
        while written + size / 2 < megabytes * 1e6:
            rows = (encode(_moved(event, copies, stride)) for event in again)
            size = file.write(",\n" + ",\n".join(rows))
            written += size
            copies += 1
        file.write("\n]}\n")
    return copies, len(once) + copies * len(again)


def _ids(events: list[dict[str, Any]]) -> list[int]:
    found = [event["id"] for event in events if isinstance(event.get("id"), int)]
    for event in events:
        args = event.get("args") or {}
        found += [args[name] for name in IDS if isinstance(args.get(name), int)]
    return found


def _moved(event: dict[str, Any], copy: int, stride: dict[str, Any]) -> dict[str, Any]:
    moved = {**event, "ts": round(event["ts"] + copy * stride["ts"], 3)}
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + copy * stride["id"]
    if isinstance(event.get("args"), dict):
        args = dict(event["args"])
        for name in IDS:
            if isinstance(args.get(name), int):
                args[name] += copy * stride["id"]
        moved["args"] = args
    step = STEP.fullmatch(str(event.get("name")))
    if step:
        moved["name"] = f"ProfilerStep#{int(step.group(1)) + copy * stride['step']}"
    return moved


if __name__ == "__main__":
    print(grow(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
