"""A script that starts under laptime's hooks; its ranks and other interpreters get them, too."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from laptime.launch.interpreter import lending_path
from laptime.process.program import Process


def start(
    module: str, words: list[str], *, python: str, folder: Path, variables: dict[str, str], **options: Any
) -> Process:
    """Start `python -m MODULE WORDS`; the module stands in for the interpreter's own way to run a script.

    Args:
        python: the script's interpreter.
        folder: for the files that this takes.
        variables: of its environment, beside laptime's own.
        options: as for `subprocess.Popen`.
    """
    environ = environment(folder, python, module, variables)
    return Process([python, "-m", module, *words], keeps_terminal=True, env=environ, **options)


def environment(folder: Path, python: str, module: str, variables: dict[str, str]) -> dict[str, str]:
    """Of such a script: such that `torchrun` starts its ranks by `python -m MODULE`, too."""
    environ = {**os.environ, **variables}
    # The profiler's library would print remarks among the script's.
    environ.setdefault("KINETO_LOG_LEVEL", "99")
    if python != sys.executable:
        # Another interpreter finds this package, and none of the packages beside it.
        environ["PYTHONPATH"] = lending_path()
    real = os.environ.get("PYTHON_EXEC") or shutil.which(python) or python
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(real)} -m {module} "$@"\n')
    wrapper.chmod(0o755)
    environ["PYTHON_EXEC"] = str(wrapper)
    return environ
