"""One call in a fresh process: one of laptime's functions runs there, its result comes back as JSON.

For what needs a framework that this process must not load. There it is
`python -m laptime.launch.fresh_call laptime.backends.torch.peaks:survey`; arguments come over the channel."""

import importlib
import json
import os
import sys
from typing import Any

from laptime.kit import errors
from laptime.kit.errors import Died, Hung, LaptimeError
from laptime.kit.extras import install
from laptime.launch.interpreter import environment, path_of
from laptime.process import channel
from laptime.process.peer import Gone, Peer, Silent


def call(function: str, arguments: dict[str, Any], *, timeout: float, python: str = "") -> Any:
    """The result of `module:function` for these keyword arguments. python: another interpreter than this one,
    see `launch.interpreter`.
    Raises LaptimeError: the one that the function raised, of the same class. Died, Hung: the process ended
    without an answer, or gave none within `timeout` seconds."""
    words = [path_of(python) if python else sys.executable, "-m", "laptime.launch.fresh_call", function]
    with Peer.start(words, env={**os.environ, **(environment(python) if python else {})}) as peer:
        try:
            told = json.loads(peer.ask(json.dumps(arguments).encode(), timeout))
        except Silent:
            raise Hung(f"{function} gave no answer within {timeout:g} s", why="a driver may hang") from None
        except Gone as gone:
            why = gone.words.line or f"it {gone.words.how}"
            raise Died(f"{function} ended without an answer", why=why) from None
    if "raised" in told:
        kind, what, why, next_step = told["raised"]
        raise getattr(errors, kind, LaptimeError)(what, why=why, next=next_step)
    return told["returned"]


def main() -> None:
    """Call the function that the command line names; its arguments come, its answer goes over the channel."""
    parent = channel.to_parent()
    module, _, name = sys.argv[1].partition(":")
    if module.split(".")[0] != "laptime":
        sys.exit("only functions of laptime are called")
    arguments = json.loads(parent.receive())
    try:
        told = {"returned": getattr(importlib.import_module(module), name)(**arguments)}
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        why = f"{sys.executable} has no package of this name"
        told = {"raised": ["Unavailable", f"{package} is not installed", why, install(package)]}
    except LaptimeError as error:
        told = {"raised": [type(error).__name__, error.what, error.why, error.next]}
    parent.send(json.dumps(told).encode())


if __name__ == "__main__":
    main()
