"""Counts the files that one thing passes on its way through laptime, room by room.

    python scripts/flow.py change     an optimization, from the diagnosis of a script to its patch
    python scripts/flow.py folder     a model's change, from the catalogue to the folder that is handed back
    python scripts/flow.py flag       a flag of a server, from the command with choices to the one handed back
    python scripts/flow.py answer     an HTTP answer, from its first byte to the level's line in the report
    python scripts/flow.py price      a machine's price, from the table to USD per million calls

Each is a real run of the command line in a scratch folder. Every process notes each file of laptime in which
a function is handed the thing: its mark (a name or a number of its own), or something that holds it.
Words after the name replace those of its command: `flow.py change --budget 6m examples/resnet18.py`.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "laptime"
HTTP = "http" + "://"
CARRIERS = ("apps", "kit", "reports", "store")
"""Rooms that carry the whole run: they are counted apart."""
HOOK = """
import os, sys, threading
MARKS, SOURCE, OUT = (os.environ[f"FLOW_{word}"] for word in ("MARKS", "SOURCE", "OUT"))
MARKS = set(MARKS.split("\\n"))
NUMBERS = {float(mark) for mark in MARKS if mark.replace(".", "").isdigit()}
seen = set()

def holds(value, depth=0):
    kind = type(value)
    if kind is str:
        return value in MARKS
    if kind is float or kind is int:
        return value in NUMBERS
    if kind is bytes or kind is bytearray:
        return any(mark.encode() in value[:4000] for mark in MARKS)
    if depth > 3:
        return False
    if kind.__name__ == "ndarray":
        value = value.ravel()[:80].tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds(each, depth + 1) for each in list(value)[:80])
    if isinstance(value, dict):
        return any(holds(key, depth + 1) or holds(each, depth + 1) for key, each in list(value.items())[:80])
    if kind.__module__.partition(".")[0] != "laptime":
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


class Walk(NamedTuple):
    """Attributes:
    marks: names and numbers that tell the thing from all others. words: of the command that is counted.
    before: words of commands that run first, uncounted.
    """

    marks: Sequence[str]
    words: Sequence[str]
    before: Sequence[Sequence[str]] = ()


def _change(folder: Path) -> Walk:
    words = ["tune", "--only", "channels_last", "--budget", "6m", str(ROOT / "examples/resnet18.py")]
    return Walk(["channels_last"], words)


def _folder(folder: Path) -> Walk:
    words = ["tune", "torchvision:resnet18", "--only", "channels_last", "--budget", "90s"]
    return Walk(["channels_last"], [*words, "--export", str(folder / "tuned")])


def _flag(folder: Path) -> Walk:
    command = f"{sys.executable} -m laptime.testing.http_server --port {{port}} --service {{0.0625,0.03125}}"
    words = ["tune", "--server", command, "--url", f"{HTTP}127.0.0.1:{{port}}/predict"]
    return Walk(["--service", "0.03125"], [*words, "--concurrency", "2", "--budget", "150s"])


def _answer(folder: Path) -> Walk:
    script = json.dumps({"answers": [{"output": 143}]})
    server = subprocess.Popen(
        [sys.executable, "-m", "fixtures.llm_server", "0", script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT / "tests",
    )
    atexit.register(server.kill)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    words = [
        "load",
        f"{address}/v1",
        "--rate",
        "10",
        "--duration",
        "3s",
        "--prompt",
        "16",
        "--output-tokens",
        "200",
    ]
    return Walk(["143"], words)


def _price(folder: Path) -> Walk:
    head = "provider,shape,usd_per_hour,seen,vcpus,cores,memory_gib"
    (folder / "prices.csv").write_text(f"{head}\nmine,walked,4.0625,2026-11-01,32,16,64\n", encoding="utf-8")
    words = ["cost", "last", "--machine", "mine:walked", "--prices", "prices.csv", "--details"]
    before = [["bench", "null:sleep=2ms", "--budget", "2s"]]
    return Walk(["mine:walked", "4.0625", "null:sleep=2ms"], words, before)


WALKS: dict[str, Callable[[Path], Walk]] = {
    "change": _change,
    "folder": _folder,
    "flag": _flag,
    "answer": _answer,
    "price": _price,
}


def files(walk: Walk, folder: Path) -> set[str]:
    """Files under src/laptime that were handed the thing, in any process of the command."""
    hook, out = folder / "hook" / "sitecustomize.py", folder / "files"
    hook.parent.mkdir()
    hook.write_text(HOOK, encoding="utf-8")
    out.touch()
    environ = {
        **os.environ,
        "FLOW_MARKS": "\n".join(walk.marks),
        "FLOW_SOURCE": str(SOURCE),
        "FLOW_OUT": str(out),
    }
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    laptime = [sys.executable, "-m", "laptime"]
    for words in walk.before:
        subprocess.run([*laptime, *words], env={**environ, "PYTHONPATH": path}, cwd=folder, check=False)
    environ["PYTHONPATH"] = os.pathsep.join([str(hook.parent), path])
    print("$ laptime", shlex.join(walk.words), flush=True)
    subprocess.run([*laptime, *walk.words], env=environ, cwd=folder, check=False)
    return set(out.read_text(encoding="utf-8").split())


def main() -> int:
    """Run one walk and print its files by room."""
    name, *words = sys.argv[1:] or [""]
    if name not in WALKS:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        walk = WALKS[name](folder)
        passed = files(walk._replace(words=[walk.words[0], *words]) if words else walk, folder)
    for path in sorted(passed):
        print(path)
    rooms = Counter(path.partition("/")[0] for path in passed)
    own = {room: number for room, number in rooms.items() if room not in CARRIERS}
    print(f"\nthe way of a {name}: {sum(own.values())} files in {len(own)} rooms: {own}")
    print(f"with command line, reports and store: {len(passed)} files in {len(rooms)} rooms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
