"""A run read back from its journal: still running, interrupted, or complete but for its final file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from msgspec import structs
from msgspec.json import Decoder

from laptime.kit.text import count
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.event import Event, RunBuilder
from laptime.records.run import Run
from laptime.store.encoding import decode
from laptime.store.schema import CURRENT, DAMAGE, Opening, current, damaged, version_of

_EVENT: Decoder[Event] = Decoder(Event, strict=False)


def is_running(path: Path) -> bool:
    """Whether the process that writes this journal is still alive."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def read_journal(data: bytes, path: Path) -> Run:
    """The run as far as its journal goes. Damaged lines are left out, a torn last one among them.

    Raises:
        UsageError: not even the beginning can be read, or a newer laptime wrote it.
    """
    builder = RunBuilder()
    lost, version = 0, CURRENT
    for number, line in enumerate(data.split(b"\n")):
        if not line:
            continue
        try:
            if number == 0:
                version = version_of(decode(line, Opening).run, path)
            builder(_EVENT.decode(line))
        except (*DAMAGE, KeyError):
            lost += 1
    try:
        run = current(builder.run(), version)
    except ValueError as error:
        raise damaged(path, f"the journal holds {count(lost, 'line')}, and none begins a run") from error
    if run.status != "running":
        return run
    return run if is_running(path) else _interrupted(run, lost)


def _interrupted(run: Run, lost: int) -> Run:
    checks = [*run.checks]
    if lost:
        sentence = f"{count(lost, 'line')} of the journal could not be read; the samples in it are lost"
        checks.append(Check(name="journal", outcome="note", sentence=sentence))
    cases = [_unfinished(case) for case in run.cases]
    return structs.replace(run, status="interrupted", cases=cases, checks=checks)


def _unfinished(case: Case) -> Case:
    """A case whose samples were not checked any more: they are kept, and say so."""
    if case.status != "ok" or case.checks:
        return case
    unchecked = Check(
        name="journal",
        outcome="warn",
        sentence="the run was interrupted before these numbers were checked",
        next="measure again",
    )
    return structs.replace(case, status="interrupted", checks=[unchecked])
