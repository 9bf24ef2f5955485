"""One call in a fresh process: one of laptime's functions runs there, its result comes back as JSON.

For what needs a framework that this process must not load. Arguments come on standard input:
`python -m laptime.launch.fresh_call laptime.backends.torch.survey:survey`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from subprocess import PIPE, TimeoutExpired
from typing import Any

from laptime.kit import errors
from laptime.kit.errors import Died, Hung, LaptimeError
from laptime.launch.interpreter import environment, path_of
from laptime.launch.process import Process, ending, last_line


def call(function: str, arguments: dict[str, Any], *, timeout: float, python: str = "") -> Any:
    """What `module:function` returns for these keyword arguments.

    Args:
        timeout: seconds.
        python: another interpreter than this one, see `launch.interpreter`.

    Raises:
        LaptimeError: the one that the function raised, of the same class.
        Died: the process ended without an answer; its last line says why.
        Hung: it gave none within `timeout` seconds.
    """
    process = Process(
        [path_of(python) if python else sys.executable, "-m", "laptime.launch.fresh_call", function],
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
    told = json.loads(answer)
    if "raised" in told:
        kind, what, why, next_step = told["raised"]
        raise getattr(errors, kind, LaptimeError)(what, why=why, next=next_step)
    return told["returned"]


def main() -> None:
    """Call the function that the command line names; arguments from standard input, the answer on output."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints is no answer
    module, _, name = sys.argv[1].partition(":")
    if module.split(".")[0] != "laptime":
        sys.exit("only functions of laptime are called")
    arguments = json.load(sys.stdin)
    try:
        told = {"returned": getattr(importlib.import_module(module), name)(**arguments)}
    except LaptimeError as error:
        told = {"raised": [type(error).__name__, error.what, error.why, error.next]}
    json.dump(told, output)
    output.close()


if __name__ == "__main__":
    main()
