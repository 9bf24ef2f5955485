"""A verb carried out on another machine: a request goes out, events come back, and the last one is the end.

A node speaks in lines of JSON (`apps.node` is its half). Exit statuses are not asked: `srun` exits with 0
when its node dies. A node that says nothing for `SILENT` seconds is lost; it sends a beat every `BEAT`.
"""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from subprocess import PIPE
from threading import Event as Stop
from time import monotonic
from typing import cast

from msgspec import MsgspecError, Struct, structs

from laptime.kit import errors
from laptime.kit.clock import utc_now
from laptime.kit.errors import LaptimeError
from laptime.launch.fleet import Machine
from laptime.process.program import LastWords, Process, tail
from laptime.records.environment import Environment
from laptime.records.event import (
    EnvironmentChanged,
    Event,
    Listener,
    RunBuilder,
    RunFinished,
    RunStarted,
    ignore,
)
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


def carried_out(
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

    Args:
        emit: hears every event. known: gets what the machine is, before anything is measured there.
        stop: ends it from another thread. silent, start: seconds without a line, and without the first.

    Raises:
        Lost: the node did not get to the end. LaptimeError: the verb's own.
    """
    fold, has_begun = RunBuilder(), False
    for line in _lines(machine, verb, encode(request), stop or Stop(), silent, start):
        if isinstance(line, Failed):
            kind = getattr(errors, line.kind, LaptimeError)
            raise kind(line.what, why=line.why, next=line.next)
        if isinstance(line, Beat):
            continue
        if isinstance(line, EnvironmentChanged) and not has_begun:
            known(line.environment)
            continue
        if isinstance(line, RunStarted):  # clocks of two machines may be hours apart
            has_begun, line = True, RunStarted(structs.replace(line.run, id=new_id(), started=utc_now()))
        fold(line)
        emit(line)
        if isinstance(line, RunFinished):
            return fold.run()
    raise AssertionError("lines end with the run, or raise")


def _lines(
    machine: Machine, verb: str, request: bytes, stop: Stop, silent: float, start: float
) -> Iterator[Line]:
    """The lines of a node until it has said all.
    Raises Lost: it ended before, fell silent, or talks nonsense."""
    with tempfile.TemporaryFile(prefix="laptime-node-") as log:
        try:
            process = Process([*machine.words, verb], stdin=PIPE, stdout=PIPE, stderr=log)
        except OSError as error:
            raise Lost(f"{machine.words[0]} does not start: {error.strerror}") from None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(request + b"\n")
                process.stdin.flush()
            yield from _heard(process.stdout.fileno(), stop, silent, start)
            status = process.end(grace=LEAVING)
        finally:
            process.stdin.close()
            process.ends_within(LEAVING)  # one that has said all: srun would call it cancelled
            process.end(grace=LEAVING)
            process.stdout.close()
        raise Lost(LastWords(status, tail(log)).sentence)


def _heard(incoming: int, stop: Stop, silent: float, start: float) -> Iterator[Line]:
    poll, rest, until = select.poll(), b"", monotonic() + start
    poll.register(incoming, select.POLLIN)
    while True:
        if stop.is_set():
            raise Lost("it was stopped")
        if not poll.poll(1e3 * LOOK):
            if monotonic() > until:
                raise Lost("it has said nothing for too long")
            continue
        chunk = os.read(incoming, 1 << 16)
        if not chunk:
            return
        until = monotonic() + silent
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            try:
                yield cast(Line, decode(line, Line))  # type: ignore[arg-type]
            except (MsgspecError, ValueError, RecursionError):
                text = line[:80].decode(errors="replace")
                raise Lost(f"it speaks no laptime of this version: {text!r}") from None
