"""The environment of a script that runs under our hooks; its ranks and other interpreters get it, too."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from laptime.kit.package import FOLDER


def environment(folder: Path, python: str, module: str, variables: dict[str, str]) -> dict[str, str]:
    """Ours, with `variables`, and so that `torchrun` starts its ranks by `python -m MODULE`.

    Args:
        folder: for the files that this takes.
        python: the script's interpreter.
        module: what stands in for the interpreter's own way to run a script.
    """
    found = {**os.environ, **variables}
    found.setdefault("KINETO_LOG_LEVEL", "99")  # remarks of the profiler's library are none of the script's
    if python != sys.executable:
        # Another interpreter finds this package, and none of the packages beside it.
        own = folder / "path"
        own.mkdir()
        (own / "laptime").symlink_to(FOLDER)
        found["PYTHONPATH"] = os.pathsep.join([str(own), *filter(None, [os.environ.get("PYTHONPATH")])])
    real = os.environ.get("PYTHON_EXEC") or shutil.which(python) or python
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(real)} -m {module} "$@"\n')
    wrapper.chmod(0o755)
    found["PYTHON_EXEC"] = str(wrapper)
    return found
