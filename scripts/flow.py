"""Counts the files that one optimization passes in a session of `laptime tune`, room by room.

    python scripts/flow.py channels_last --budget 6m examples/resnet18.py

Every process of the session notes each file of laptime in which a function is handed the change: its name, or
something that holds it. Command line, reports and
store carry the whole run; they are told apart from the way from diagnosis to patch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "laptime"
CARRIERS = ("apps", "kit", "reports", "store")
HOOK = """
import os, sys, threading
NAME, SOURCE, OUT = (os.environ[f"FLOW_{word}"] for word in ("NAME", "SOURCE", "OUT"))
seen = set()

def holds(value, depth=0):
    if type(value) is str:
        return value == NAME
    if depth > 3:
        return False
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds(each, depth + 1) for each in list(value)[:80])
    if isinstance(value, dict):
        return any(holds(key, depth + 1) or holds(each, depth + 1) for key, each in list(value.items())[:80])
    kind = type(value)
    if not kind.__module__.startswith("laptime"):
        return False
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    for field in list(fields or getattr(value, "__dict__", ()))[:60]:
        try:
            if holds(getattr(value, field, None), depth + 1):
                return True
        except Exception:
            continue
    return False

def note(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_filename in seen:
        return
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if holds(frame.f_locals.get(name), 2 if name == "self" else 0):
            seen.add(code.co_filename)
            with open(OUT, "a") as file:
                file.write(code.co_filename[len(SOURCE):].lstrip("/") + "\\n")
            return

sys.setprofile(note)
threading.setprofile(note)
"""


def files(change: str, arguments: list[str]) -> set[str]:
    """Files under src/laptime that were handed the change, in any process of the session."""
    with tempfile.TemporaryDirectory() as folder:
        hook, out = Path(folder) / "sitecustomize.py", Path(folder) / "files"
        hook.write_text(HOOK, encoding="utf-8")
        out.touch()
        environ = {
            **os.environ,
            **{"PYTHONPATH": folder, "FLOW_NAME": change, "FLOW_SOURCE": str(SOURCE), "FLOW_OUT": str(out)},
        }
        command = [sys.executable, "-m", "laptime", "tune", "--only", change, *arguments]
        subprocess.run(command, env=environ, check=False)
        return set(out.read_text(encoding="utf-8").split())


def main() -> int:
    """Run the session and print the files by room."""
    change, *arguments = sys.argv[1:]
    passed = files(change, arguments)
    for path in sorted(passed):
        print(path)
    rooms = Counter(path.partition("/")[0] for path in passed)
    own = {room: number for room, number in rooms.items() if room not in CARRIERS}
    print(f"\nfrom diagnosis to patch: {sum(own.values())} files in {len(own)} rooms: {own}")
    print(f"with command line, reports and store: {len(passed)} files in {len(rooms)} rooms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
