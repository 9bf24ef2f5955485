"""A verb carried out on another machine: a request goes out, events come back, and the last one is the end.

A node speaks in lines of JSON (`apps.node` is its half). Exit statuses are not asked: `srun` exits with 0
when its node dies. A node that says nothing for `SILENT` seconds is lost; it sends a beat every `BEAT`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event as Stop
from time import monotonic
from typing import cast

from msgspec import MsgspecError, Struct, structs

from laptime.kit import errors
from laptime.kit.clock import utc_now
from laptime.kit.errors import LaptimeError
from laptime.launch.fleet import Machine
from laptime.process.channel import Lines
from laptime.process.peer import Gone, Peer, Silent
from laptime.records import event as events
from laptime.records.environment import Environment
from laptime.records.event import Event, Listener, ignore
from laptime.records.run import Run
from laptime.store.encoding import decode, encode
from laptime.store.folder import new_id

BEAT = 2.0  # seconds between two signs of life of a node
SILENT = 30.0  # seconds without any after which a node is lost
LEAVING = 2.0  # seconds that a node gets to end by itself
LOOK = 0.5  # seconds between two looks at whether it is to stop
START = 300.0  # seconds that the first one may take: a queue, a shared file system


class Beat(Struct, frozen=True, tag="beat"):
    """A sign of life."""


class Failed(Struct, frozen=True, tag="failed"):
    """The verb raised an error. `kind`: its class in `kit.errors`."""

    kind: str
    what: str
    why: str = ""
    next: str = ""


Line = Event | Beat | Failed


class Lost(Exception):
    """The node has ended, or says nothing any more, before the end of the run."""


def run_on(
    machine: Machine,
    verb: str,
    request: Struct,
    emit: Listener = ignore,
    *,
    known: Callable[[Environment], object] = lambda environment: None,
    stop: Stop | None = None,
    silent: float = SILENT,
    start: float = START,
) -> Run:
    """Carry a verb out on a machine; its run has an id and a time of this one.
    emit: hears every event. known: gets what the machine is, before anything is measured there. stop: ends it
    from another thread. silent, start: seconds without a line, and without the first.
    Raises Lost: the node did not get to the end. LaptimeError: the verb's own."""
    fold, has_begun = events.RunBuilder(), False
    for line in _lines(machine, verb, encode(request), stop or Stop(), silent, start):
        if isinstance(line, Failed):
            raise getattr(errors, line.kind, LaptimeError)(line.what, why=line.why, next=line.next)
        if isinstance(line, Beat):
            continue
        if isinstance(line, events.EnvironmentChanged) and not has_begun:
            known(line.environment)
            continue
        if isinstance(line, events.RunStarted):  # clocks of two machines may be hours apart
            has_begun = True
            line = events.RunStarted(structs.replace(line.run, id=new_id(), started=utc_now()))
        fold(line)
        emit(line)
        if isinstance(line, events.RunFinished):
            return fold.run()
    raise AssertionError("lines end with the run, or raise")


def _lines(
    machine: Machine, verb: str, request: bytes, stop: Stop, silent: float, start: float
) -> Iterator[Line]:
    """The lines of a node until it has said all.
    Raises Lost: it ended before, fell silent, or talks nonsense."""
    try:
        peer = Peer.start([*machine.words, verb], frames=Lines())
    except OSError as error:
        raise Lost(f"{machine.words[0]} does not start: {error.strerror}") from None
    until = monotonic() + start
    try:
        peer.send(request, start)
        while not stop.is_set():
            try:
                line = peer.receive(LOOK)
            except Silent:
                if monotonic() > until:
                    raise
                continue
            until = monotonic() + silent
            try:
                yield cast(Line, decode(line, Line))  # type: ignore[arg-type]
            except (MsgspecError, ValueError, RecursionError):
                text = line[:80].decode(errors="replace")
                raise Lost(f"it speaks no laptime of this version: {text!r}") from None
        raise Lost("it was stopped")
    except Silent:
        raise Lost("it has said nothing for too long") from None
    except Gone as gone:
        raise Lost(gone.words.sentence) from None
    finally:
        peer.close(grace=LEAVING)  # one that has said all ends by itself: srun would call it cancelled
