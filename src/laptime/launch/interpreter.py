"""Another Python for a backend's workers: it is lent this laptime, and the few libraries that a worker needs.

The worker always runs this very laptime, so that both ends speak one protocol: a folder with a link to it
comes first on the worker's import path, and nothing else of this environment does. A worker also needs
msgspec and psutil. Where the other Python lacks them and is of the same version, so that binaries fit, they
are linked, too."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laptime.kit import FOLDER
from laptime.kit.errors import Unavailable, UsageError
from laptime.process.program import last_line

NEEDED = ("msgspec", "psutil")
_TIMEOUT = 30.0
_OLDEST = [3, 11]
_PROBE = """
import importlib.util, json, sys
print(json.dumps({
    "version": sys.version_info[:2],
    "tag": sys.implementation.cache_tag,
    "lacks": [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None],
}))
"""


def path_of(python: str) -> str:
    """The absolute path of an interpreter. Links are not followed: a virtual environment is one.
    Raises UsageError: there is no such program."""
    path = Path(python).expanduser()
    if path.is_dir() and (path / "bin" / "python").exists():
        path = path / "bin" / "python"
    program = shutil.which(path)
    if program is None:
        raise UsageError(
            f"there is no Python interpreter {python}",
            why="it is a folder without bin/python" if path.is_dir() else "no program of this name was found",
            next="--python tensorflow=.venv-tf/bin/python",
        )
    return str(Path(program).absolute())


@cache
def environment(python: str) -> dict[str, str]:
    """Environment variables with which an interpreter finds laptime and what a worker needs.
    Raises UsageError: it is no Python. Unavailable: it is too old, or lacks a library that cannot be lent."""
    program = path_of(python)
    try:
        done = subprocess.run(
            [program, "-c", _PROBE, *NEEDED], capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"{program} does not answer as a Python interpreter",
            why=last_line(getattr(error, "stderr", None) or str(error)) or type(error).__name__,
            next=f"{program} -c 'import sys; print(sys.version)'",
        ) from error
    version = ".".join(map(str, answer["version"]))
    if answer["version"] < _OLDEST:
        raise Unavailable(
            f"{python} is too old to run laptime's worker",
            why=f"it is Python {version}; 3.11 is the oldest that does",
            next=f"make an environment with Python 3.11 or newer: {Path(sys.executable).name} -m venv DIR",
        )
    lacks = answer["lacks"]
    if lacks and answer["tag"] != sys.implementation.cache_tag:
        raise Unavailable(
            f"{python} lacks {' and '.join(lacks)}, which laptime's worker needs",
            why=f"it is Python {version}; ours are built for {sys.version_info[0]}.{sys.version_info[1]}",
            next=f"{python} -m pip install {' '.join(lacks)}",
        )
    return {"PYTHONPATH": lending_path(*lacks)}


def lending_path(*libraries: str) -> str:
    """A PYTHONPATH that finds this laptime and these of its libraries, before what ours has already."""
    return os.pathsep.join(filter(None, [_lent(libraries).name, os.environ.get("PYTHONPATH")]))


@cache  # the folder lasts until this process ends: workers start again and again
def _lent(names: tuple[str, ...]) -> tempfile.TemporaryDirectory[str]:
    """A folder with links to laptime and to these of its libraries."""
    folder = tempfile.TemporaryDirectory(prefix="laptime-lent-")
    (Path(folder.name) / "laptime").symlink_to(FOLDER)
    for name in names:
        spec = find_spec(name)
        assert spec is not None, f"{name} is a dependency of laptime"
        assert spec.submodule_search_locations, f"{name} is a package"
        (Path(folder.name) / name).symlink_to(spec.submodule_search_locations[0])
    return folder
