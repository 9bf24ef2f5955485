"""One question to a fresh process: call one of laptime's functions there, get its answer as JSON.

For questions whose answer needs a framework that this process must not load:
`python -m laptime.launch.once laptime.backends.torch.survey:survey` reads its arguments from standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from laptime.kit.errors import Died, Hung
from laptime.launch.interpreter import environment, found


def call(function: str, arguments: dict[str, Any], *, timeout: float, python: str = "") -> Any:
    """The answer of `module:function` with these keyword arguments.

    Args:
        timeout: seconds.
        python: another interpreter than this one, see `launch.interpreter`.

    Raises:
        Died: the process ended without an answer; its last line says why.
        Hung: it gave none within `timeout` seconds.
    """
    process = subprocess.Popen(
        [found(python) if python else sys.executable, "-m", "laptime.launch.once", function],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **(environment(python) if python else {})},
    )
    try:
        answer, complaint = process.communicate(json.dumps(arguments), timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Hung(f"{function} gave no answer within {timeout:g} s", why="a driver may hang") from None
    finally:
        if process.poll() is None:  # timeout, or Ctrl-C here
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        last = (complaint.strip().splitlines() or [f"status {process.returncode}"])[-1]
        raise Died(f"{function} ended without an answer", why=last)
    return json.loads(answer)


def main() -> None:
    """Call the function that the command line names; arguments from standard input, the answer on output."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is no answer
    module, _, name = sys.argv[1].partition(":")
    if module.split(".")[0] != "laptime":
        sys.exit("only functions of laptime are called")
    arguments = json.load(sys.stdin)
    answer = getattr(importlib.import_module(module), name)(**arguments)
    json.dump(answer, output)
    output.close()


if __name__ == "__main__":
    main()
