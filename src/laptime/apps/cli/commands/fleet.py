"""Show what works in the background, where and since when, and stop it."""

import fcntl
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
from msgspec import Struct

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.kit.clock import utc_now
from laptime.kit.errors import ExitCode, UsageError
from laptime.process.program import last_line, tail
from laptime.store import encoding, files, folder
from laptime.store.journal import is_running

ENDING = 60.0  # seconds that one gets to end its jobs on all machines


class Head(Struct, frozen=True):
    """A command in the background: a file in the store; its lines and result are in a `.log` beside it."""

    id: str
    host: str
    pid: int
    started: str
    command: str


@click.command("fleet")
@click.argument("action", type=click.Choice(["stop"]), required=False)
@click.argument("head", metavar="[ID]", default="")
@voice_options
@pass_voice
def command(voice: Voice, /, action: str | None, head: str) -> None:
    """Show what works in the background, where and since when, and stop it.

    A line for each command that was started with --detach, with the last line that it said, and one for each
    run that is being measured into this store, with its machine.

    \b
    laptime suite run standard --on slurm --detach
    laptime fleet
    laptime fleet stop 20261127-101019-836-8d53f0
    """
    heads = {each.id: (each, log) for each, log in _heads() if is_running(log)}
    if action and head not in heads:
        raise UsageError(f"nothing works under the id {head!r}", next="laptime fleet")
    if action:
        _stop(*heads[head], voice)
        return
    rows = [
        (each.id, each.command, each.host, each.started, last_line(tail(log))) for each, log in heads.values()
    ]
    going = [files.read(path) for path in files.list_files() if path.suffix == ".jsonl" and is_running(path)]
    rows += [(run.id, run.name or run.verb, run.environment.host, run.started, "") for run in going]
    if rows:
        shown = [[*map(one_line, row)] for row in rows]
        output.result(output.table(("id", "what", "where", "since", "says"), shown, whole=("since",)))
    else:
        voice.say("nothing works in the background   next: laptime suite run standard --on local:2 --detach")


def detach(voice: Voice) -> ExitCode:
    """Start the line that was typed as a process of its own, and leave it."""
    place, head_id = folder.home() / "fleet", folder.new_id()
    folder.make(folder.home())
    place.mkdir(exist_ok=True)
    for _, log in _heads():
        if not is_running(log):
            log.unlink()
            log.with_suffix(".json").unlink()
    words = [word for word in sys.argv[1:] if word != "--detach"]
    with (place / f"{head_id}.log").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as long as it, or anything with its output, lives
        process = subprocess.Popen(
            [sys.executable, "-m", "laptime", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    head = Head(head_id, platform.node(), process.pid, utc_now(), shlex.join(words))
    folder.write_whole(place / f"{head_id}.json", encoding.encode(head))
    voice.say(f"{head_id} works in the background   next: laptime fleet, or laptime fleet stop {head_id}")
    return ExitCode.OK


def _heads() -> list[tuple[Head, Path]]:
    paths = sorted((folder.home() / "fleet").glob("*.json"))
    return [(encoding.decode(path.read_bytes(), Head), path.with_suffix(".log")) for path in paths]


def _stop(head: Head, log: Path, voice: Voice) -> None:
    if head.host != platform.node():
        raise UsageError(f"{head.id} works on {head.host}", next=f"laptime fleet stop {head.id}   there")
    os.kill(head.pid, signal.SIGTERM)
    until = time.monotonic() + ENDING
    while is_running(log) and time.monotonic() < until:
        time.sleep(0.2)
    if is_running(log):
        os.killpg(head.pid, signal.SIGKILL)  # its nodes end when nobody listens any more
    voice.say(f"stopped {head.id}; what was measured is kept   next: laptime {head.command} --resume")
