"""One question to a fresh process: call one of laptime's functions there, get its answer as JSON.

For questions whose answer needs a framework that this process must not load:
`python -m laptime.launch.once laptime.backends.torch.survey:survey` reads its arguments from standard input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from subprocess import PIPE, TimeoutExpired
from typing import Any

from laptime.kit.errors import Died, Hung
from laptime.launch.interpreter import environment, found
from laptime.launch.process import Process, ending, last_line


def call(function: str, arguments: dict[str, Any], *, timeout: float, python: str = "") -> Any:
    """The answer of `module:function` with these keyword arguments.

    Args:
        timeout: seconds.
        python: another interpreter than this one, see `launch.interpreter`.

    Raises:
        Died: the process ended without an answer; its last line says why.
        Hung: it gave none within `timeout` seconds.
    """
    process = Process(
        [found(python) if python else sys.executable, "-m", "laptime.launch.once", function],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **(environment(python) if python else {})},
    )
    try:
        answer, complaint = process.communicate(json.dumps(arguments).encode(), timeout=timeout)
    except TimeoutExpired:
        raise Hung(f"{function} gave no answer within {timeout:g} s", why="a driver may hang") from None
    finally:
        status = process.end()
    if status != 0:
        why = last_line(complaint.decode(errors="replace")) or f"it {ending(status)}"
        raise Died(f"{function} ended without an answer", why=why)
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
