"""The program that a worker process runs: `python -m laptime.launch.worker`.

Commands come as JSON, messages go as JSON (`process.channel`). The parent keeps what the model prints in a
file, and shows its end when something fails.
"""

from __future__ import annotations

import os
import sys

import msgspec

from laptime.kit.registry import load
from laptime.measure.engine import Engine, decode_command
from laptime.measure.protocol import Close, Model
from laptime.process import channel
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
    """Answer commands until Close, or until nobody is there to send one."""
    parent = channel.to_parent()
    own = os.getpid()
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    engine = Engine(open_variant, import_framework=import_framework)
    for sent in parent:
        command = decode_command(sent)
        for message in engine.answer(command):
            if os.getpid() != own:  # a call forked, and the child came back from it: it is nobody's worker
                os._exit(1)
            parent.send(encode(message))
        if isinstance(command, Close):
            break
    sys.stderr.flush()
    # Everything is answered and undone; taking a framework apart, object by object, takes over a second.
    os._exit(0)


if __name__ == "__main__":
    main()
