"""Makes a release: builds, checks the wheel in bare environments, writes the notes. `make release`.

    python scripts/release.py               all of it; prints what to type to publish
    python scripts/release.py --wheel       build, and check the wheel on each Python
    python scripts/release.py --extra NAME  check the wheel with one extra on this Python

An environment is made by uv with nothing but the wheel and what it needs, and thrown away; it is asked by
both doors, the command line and the Python API. Notes are made by towncrier of the files in changes/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BARE = """
import laptime
run = laptime.bench(lambda: sum(range(9999)), backends=["null"], budget=1)
print(run)
assert run.cases[0].status == "ok"
"""
IMPORTS = {"onnx": "onnxruntime", "load": "h11", "remote": "fsspec", "zst": "laptime", "energy": "pynvml",
           "opentelemetry": "opentelemetry.sdk", "prometheus": "prometheus_client"}  # fmt: skip
"""What an extra brings, where its module has another name."""


def version() -> str:
    """As the package says."""
    text = (ROOT / "src/laptime/kit/__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def do(*words: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a command, shown first; ends the program when it fails."""
    print("+", *words, flush=True)
    status = subprocess.run([*map(str, words)], cwd=ROOT, env=env).returncode
    if status:
        sys.exit(status)


def uv() -> str:
    """The uv of .venv, else that of the system."""
    own = ROOT / ".venv/bin/uv"
    found = str(own) if own.exists() else shutil.which("uv")
    if found is None:
        sys.exit("error: uv is missing\nnext:  python -m pip install uv")
    return found


def built() -> Path:
    """A fresh wheel in dist/."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    do(uv(), "build", "--quiet", "--out-dir", ROOT / "dist", ROOT)
    return next((ROOT / "dist").glob("*.whl"))


def check(wheel: Path, python: str, extra: str = "") -> None:
    """Install the wheel into a new environment, and ask it something by both doors."""
    with tempfile.TemporaryDirectory(prefix="laptime-release-") as folder:
        place = Path(folder) / "env"
        do(uv(), "venv", "--quiet", "--python", python, place)
        what = f"laptime[{extra}] @ {wheel.as_uri()}" if extra else wheel
        do(uv(), "pip", "install", "--quiet", "--python", place / "bin/python", what)
        outside = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAPTIME"))
        }
        outside |= {"LAPTIME_HOME": f"{folder}/home", "LAPTIME_CACHE": f"{folder}/cache"}
        do(place / "bin/laptime", "--version", env=outside)
        do(place / "bin/laptime", "bench", "null:spin=1ms", "--budget", "1s", "--no-save", env=outside)
        do(place / "bin/python", "-c", BARE, env=outside)
        if extra:
            do(place / "bin/python", "-c", f"import {IMPORTS.get(extra, extra)}", env=outside)


def extras() -> Sequence[str]:
    """Those of pyproject.toml that a user installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in ("dev", "docs")]


def notes(number: str) -> None:
    """The notes of what lies in changes/; nothing where nothing does."""
    if any(path.name != "README.md" for path in (ROOT / "changes").glob("*.md")):
        do(ROOT / ".venv/bin/towncrier", "build", "--yes", "--version", number)


def refuse_if_not_ready(number: str) -> None:
    """Only what is committed, under a number that is not taken, is released."""
    git = ("git", "-C", str(ROOT))
    if subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout:
        sys.exit("error: something is not committed\nwhy:   a release is made of a commit\nnext:  git status")
    if subprocess.run([*git, "tag", "-l", f"v{number}"], capture_output=True, text=True).stdout:
        sys.exit(f"error: v{number} is tagged\nnext:  raise __version__ in src/laptime/kit/__init__.py")


def main(words: Sequence[str]) -> None:
    """Make a release, or one part of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", action="store_true", help="build, and check the wheel on each Python")
    parser.add_argument("--extra", choices=extras(), help="check the wheel with an extra on this Python")
    parser.add_argument(
        "--python", action="append", help=f"check on this Python. [default: {', '.join(PYTHONS)}]"
    )
    given = parser.parse_args(words)
    if given.extra:
        return check(built(), sys.executable, given.extra)
    if not given.wheel:
        refuse_if_not_ready(version())
    wheel = built()
    for python in given.python or PYTHONS:
        check(wheel, python)
    print(f"{wheel.name} answers on Python {', '.join(given.python or PYTHONS)}")
    if not given.wheel:
        notes(version())
        print("Read CHANGELOG.md, then:")
        print(f"  git commit -am 'Release {version()}' && git tag -a v{version()} -m 'laptime {version()}'")
        print("  git push --follow-tags && .venv/bin/uv publish")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
