"""Does an export keep its contract? It takes records of cases and steps, and leaves files in its place."""

from __future__ import annotations

from pathlib import Path

from laptime.edges.exports import Point, Record, opened
from laptime.testing.conformance import documented, need, takes


def check_export(name: str, folder: Path) -> str:
    """Write two cases and three steps below an empty folder; what `close` said.

    Raises:
        Unavailable: its library is not installed.
    """
    module = documented("exports", name)
    need(isinstance(getattr(module, "PLACE", None), str) and module.PLACE, f"exports/{name} has no PLACE")
    need("://" not in module.PLACE, f"exports/{name} writes to an address unasked")
    takes(module.open, "place", "title")
    export = opened(name, str(folder), title="a run: 1/2")
    for key, step in (("a/batch=1", 0), ("b/batch=8", 0), ("b/batch=8", 1)):
        points = [
            Point("latency/isolated/median", 0.25 + step, "s", "latency, median"),
            Point("flops", 2e9, "FLOP"),
        ]
        export.write(Record(key, {"target": key[0], "batch": key[-1]}, points, step))
    said = export.close()
    need(said and "\n" not in said, f"exports/{name}: close() must say in one line where the numbers are")
    need(any(path.is_file() for path in folder.rglob("*")), f"exports/{name} left no file in its place")
    return said
