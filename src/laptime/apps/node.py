"""`python -m laptime.apps.node VERB`: the half of a verb that works on another machine.

A request comes in as one line of JSON, events go out as lines of JSON: what is known of the machine first, a
beat every two seconds, `run_finished` or `failed` at the end. When nobody reads any more, the node stops.
What programs print goes to standard error, and nothing is kept here: the other end has the journal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from laptime.kit.errors import LaptimeError, UsageError
from laptime.launch.fleet.node import BEAT, Beat, Failed
from laptime.probes import machine
from laptime.process.channel import Closed, Lines, to_parent
from laptime.process.program import unwound_by_sigterm
from laptime.records.event import EnvironmentChanged, Listener
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.store.encoding import decode, encode
from laptime.verbs.load.request import LoadRequest


class TraceRequest(Struct, frozen=True):
    """Traces of one job. path: one of them; against: another job's."""

    paths: list[str] = []
    path: str = ""
    against: list[str] = []


VERBS: dict[str, type[Struct]] = {"bench": BenchRequest, "load": LoadRequest, "trace": TraceRequest}


def carry_out(request: Struct, emit: Listener) -> Run:
    """The run of a request; its verb is imported now."""
    if isinstance(request, BenchRequest):
        from laptime.verbs.bench import bench

        return bench(structs.replace(request, save=False), emit)
    if isinstance(request, LoadRequest):
        from laptime.verbs.load.run import load

        return load(structs.replace(request, save=False), emit)
    from laptime.verbs.trace import trace

    assert isinstance(request, TraceRequest)
    paths = [*request.paths, *filter(None, [request.path])]
    return trace(list(map(Path, paths)), emit, against=list(map(Path, request.against)))


def main(words: list[str]) -> int:
    """Carry out the verb of the only word; the exit status."""
    parent, lock, ended = to_parent(Lines()), threading.Lock(), threading.Event()

    def say(record: Struct) -> None:
        with lock:
            parent.send(encode(record))

    def live() -> None:
        try:
            while not ended.wait(BEAT):
                say(Beat())
        except Closed:  # whoever has asked is gone
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        kind = VERBS[words[0] if len(words) == 1 else ""]
    except KeyError:
        say(
            Failed("UsageError", f"a node has no verb {' '.join(words)!r}", next=f"one of {', '.join(VERBS)}")
        )
        return 2
    try:
        with unwound_by_sigterm():
            request = decode(parent.receive(), kind)
            threading.Thread(target=live, daemon=True).start()
            say(EnvironmentChanged(machine.environment()))
            carry_out(request, say)
    except LaptimeError as error:
        say(Failed(type(error).__name__, error.what, error.why, error.next))
        return error.exit_code
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        what = UsageError("the request cannot be read", why=str(error).splitlines()[0])
        say(Failed("UsageError", what.what, what.why))
        return what.exit_code
    except (KeyboardInterrupt, Closed):
        return 130
    finally:
        ended.set()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
