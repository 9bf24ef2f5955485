"""A verb carried out on another machine: a request goes out, events come back, and the last one is the end.

A node speaks in lines of JSON (`apps.node` is its half). Exit statuses are not asked: `srun` exits with 0
when its node dies. A node that says nothing for `SILENT` seconds is lost; it sends a beat every `BEAT`."""

import os
import sys
from collections.abc import Callable, Iterator
from time import monotonic
from typing import cast

from msgspec import MsgspecError, Struct, structs, to_builtins

from laptime.kit import __version__, errors, redaction
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


class Wanted(Struct, frozen=True, tag="wanted"):
    """The node has not got the code whose ticket it was told."""


class Failed(Struct, frozen=True, tag="failed"):
    """The verb raised an error. `kind`: its class in `kit.errors`, or Lost: the machine is of no use."""

    kind: str
    what: str
    why: str = ""
    next: str = ""


Line = Event | Beat | Wanted | Failed


class Lost(Exception):
    """The node has ended, or says nothing any more, before the end of the run."""


def run_on(
    machine: Machine,
    verb: str,
    request: Struct,
    emit: Listener = ignore,
    *,
    known: Callable[[Environment], object] = lambda environment: None,
    stop: Callable[[], bool] = bool,
    silent: float = SILENT,
    start: float = START,
) -> Run:
    """Carry a verb out on a machine; its run has an id and a time of this one.
    emit: hears every event. known: gets what the machine is, before anything is measured there. stop: ends it
    from another thread. silent, start: seconds without a line, and without the first.
    Raises Lost: the node did not get to the end. LaptimeError: the verb's own."""
    fold, has_begun = events.RunBuilder(), False
    if machine.code is not None:
        request = machine.code.relative(request)
    order = encode(to_builtins(request, enc_hook=os.fspath))
    for line in _lines(machine, verb, order, stop, silent, start):
        if isinstance(line, Failed):
            if line.kind == "Lost":
                raise Lost(line.what)
            why = f"{line.why} (on {machine.name})".strip()
            raise getattr(errors, line.kind, LaptimeError)(line.what, why=why, next=line.next)
        if isinstance(line, Beat | Wanted):
            continue
        if isinstance(line, events.EnvironmentChanged):
            line = structs.replace(line, environment=_with_git(line.environment, machine))
            if not has_begun:
                _check_version(line.environment)
                known(line.environment)
                continue
        if isinstance(line, events.RunStarted):
            has_begun = True
            line = events.RunStarted(_ours(line.run, machine))
        fold(line)
        emit(line)
        if isinstance(line, events.RunFinished):
            return fold.run()
    raise AssertionError("lines end with the run, or raise")


def _ours(run: Run, machine: Machine) -> Run:
    """The run as one that was asked for here: clocks of two machines may be hours apart."""
    return structs.replace(
        run,
        id=new_id(),
        started=utc_now(),
        command=redaction.line(["laptime", *sys.argv[1:]]),
        environment=_with_git(run.environment, machine),
    )


def _with_git(environment: Environment, machine: Machine) -> Environment:
    return environment if machine.code is None else structs.replace(environment, git=machine.code.git)


def _check_version(environment: Environment) -> None:
    """Raises Lost: the node has another laptime, which may measure otherwise."""
    theirs = environment.libraries.get("laptime", "none")
    if theirs != __version__:
        raise Lost(
            f"it has laptime {theirs}, this machine has {__version__}: pip install laptime=={__version__}"
        )


def _lines(
    machine: Machine, verb: str, request: bytes, stop: Callable[[], bool], silent: float, start: float
) -> Iterator[Line]:
    """The lines of a node until it has said all.
    Raises Lost: it ended before, fell silent, or talks nonsense."""
    try:
        name = [] if machine.is_here else [machine.name]  # it does one thing at a time, whoever asks
        peer = Peer.start([*machine.words, verb, *name], frames=Lines())
    except OSError as error:
        raise Lost(f"{machine.words[0]} does not start: {error.strerror}") from None
    until = monotonic() + start
    try:
        if machine.code is not None:
            peer.send(encode(machine.code.ticket), start)
        peer.send(request, start)
        while not stop():
            try:
                line = peer.receive(LOOK)
            except Silent:
                if monotonic() > until:
                    raise
                continue
            until = monotonic() + silent
            try:
                said = cast(Line, decode(line, Line))  # type: ignore[arg-type]
            except (MsgspecError, ValueError, RecursionError):
                text = line[:80].decode(errors="replace")
                raise Lost(f"it speaks no laptime of this version: {text!r}") from None
            if isinstance(said, Wanted) and machine.code is not None:
                peer.send(encode(machine.code.packed), start)
                until = monotonic() + start  # it unpacks them
            yield said
        raise Lost("it was stopped")
    except Silent:
        raise Lost("it has said nothing for too long") from None
    except Gone as gone:
        raise Lost(gone.words.sentence) from None
    finally:
        peer.close(grace=LEAVING)  # one that has said all ends by itself: srun would call it cancelled
