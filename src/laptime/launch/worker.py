"""The program that a worker process runs: `python -m laptime.launch.worker`.

Commands come as JSON lines on standard input, messages go as JSON lines to what was standard output.
Standard output itself is pointed at standard error first, so that whatever a model prints cannot be taken
for a message, and standard input at nothing, so that a model that reads takes no command away; the
parent keeps standard error in a file and shows its end when something fails.
"""

from __future__ import annotations

import os
import sys

import msgspec

from laptime.kit import system_files
from laptime.kit.registry import load
from laptime.measure.engine import Engine, decode_command
from laptime.measure.protocol import Close, Model
from laptime.records.plan import Variant


def open_variant(variant: Variant) -> Model:
    """Load a variant with the backend it names."""
    model: Model = load("backends", variant.backend).open(variant)
    return model


def import_framework(variant: Variant) -> None:
    """Import what the variant needs, so that import and load can be told apart."""
    imports = getattr(load("backends", variant.backend), "imports", None)
    if imports is not None:
        imports(variant)


def _plain(value: object) -> object:
    """Frameworks like to return their own kinds of strings and numbers."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def main() -> None:
    """Answer commands until Close or the end of input."""
    ends = [system_files.out_of_reach(os.dup(number)) for number in (0, 1)]
    commands, messages = os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb", buffering=0)
    own = os.getpid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    engine = Engine(open_variant, import_framework=import_framework)
    for line in commands:
        command = decode_command(line)
        for message in engine.answer(command):
            if os.getpid() != own:  # a call forked, and the child came back from it: it is nobody's worker
                os._exit(1)
            messages.write(encode(message) + b"\n")
        if isinstance(command, Close):
            break
    sys.stderr.flush()
    # Everything is answered and undone; taking a framework apart, object by object, takes over a second.
    os._exit(0)


if __name__ == "__main__":
    main()
