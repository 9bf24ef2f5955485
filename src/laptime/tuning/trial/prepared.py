"""`python -m laptime.tuning.trial.prepared MODULE...`: an interpreter that has imported these modules, and
forks a trial for each message that comes (`process.channel`).

A message is JSON: {"words": the script and its arguments, "environ": the environment, "output": a file}.
Answers are {"threads": N} when the modules are there, {"pid": N} of a trial that begins, and
{"pid": N, "status": N} of one that has ended. A trial leads a process group of its own.

A fork is sound only if no other thread runs: what it holds would stay locked for ever in the child.
OpenBLAS ends its threads before a fork and starts them again when they are needed; so threads are counted
after a first one that does nothing. Whoever reads of more than one asks for no trial here."""

import gc
import importlib
import json
import os
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from laptime.process import channel


def main() -> int:
    """Until nobody is there to ask for more; in a child, the exit status of its trial."""
    parent = channel.to_parent()

    def answer(**words: int) -> None:
        parent.send(json.dumps(words).encode())

    for name in (*sys.argv[1:], "laptime.tuning.trial.__main__", "laptime.tuning.trial.race_runner"):
        with suppress(Exception):  # the script will say so itself
            importlib.import_module(name)
    gc.freeze()  # what stands here is not looked through again in each child
    pid = os.fork()  # for nothing: see above
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    answer(threads=len(os.listdir("/proc/self/task")))  # noqa: PTH208
    children: dict[int, int] = {}
    poll = select.poll()
    poll.register(parent, select.POLLIN)
    while parent.is_open:
        for descriptor, _ in poll.poll():
            if descriptor in children:
                poll.unregister(descriptor)
                pid = children.pop(descriptor)
                os.close(descriptor)
                _, status = os.waitpid(pid, 0)
                answer(pid=pid, status=os.waitstatus_to_exitcode(status))
            else:
                parent.read()
        while (message := parent.taken()) is not None:
            pid = os.fork()
            if pid == 0:
                parent.close()
                for inherited in children:
                    os.close(inherited)
                return _trial(json.loads(message))
            with suppress(OSError):  # the child does so, too: whoever is first
                os.setpgid(pid, pid)
            descriptor = os.pidfd_open(pid)
            children[descriptor] = pid
            poll.register(descriptor, select.POLLIN)
            answer(pid=pid)
    return 0


def _trial(request: dict[str, Any]) -> int:
    """Carry out the request as a fresh interpreter does."""
    os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(Path(request["output"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environ"])
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # `random` does so itself after a fork
    sys.argv = [sys.argv[0], *request["words"]]
    from laptime.tuning.trial.__main__ import main as trial

    return trial()


if __name__ == "__main__":
    sys.exit(main())
