"""`python -m laptime.instrument [-u] [-m] SCRIPT [ARGUMENTS...]`: what `python SCRIPT ...` does, observed.

What to do comes from the environment (`settings.VARIABLE`). `torchrun` starts its ranks with the program that
PYTHON_EXEC names; that is this one, so that each rank is observed. Other children of the script are not."""

import ctypes
import os
import signal
import sys
from contextlib import suppress

from laptime.instrument import messages, program, tensorflow
from laptime.instrument.hooks import Hooks, observe_ranks
from laptime.instrument.importing import WhenImported
from laptime.instrument.messages import Settings
from laptime.instrument.step_observer import StepObserver

PR_SET_PDEATHSIG = 1  # prctl(2)


def main() -> int:
    """Run the script; its exit status, 0 when we have stopped it."""
    settings = Settings.from_environment()
    words = [word for word in sys.argv[1:2] if word != "-u"] + sys.argv[2:]
    if settings is None or not words:
        sys.exit("this is for `laptime profile SCRIPT`")
    with suppress(AttributeError, OSError):  # Linux: it ends with whoever has started it, even by kill -9
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.environ.get(messages.PARENT, "") not in ("", str(os.getppid())):
        return 1  # that one was gone before
    is_module = words[0] == "-m"
    own = os.getpid()
    observer = StepObserver(settings)
    hooks = Hooks(observer, observe_ranks)
    other = tensorflow.Hooks(observer)
    watches = [WhenImported("torch", hooks.install), WhenImported("tensorflow", other.install)]
    undo = program.install(settings.sources)
    for watch in watches:
        watch.install()
    try:
        ended = program.run(words[1:] if is_module else words, is_module=is_module)
    finally:
        for watch in watches:
            watch.remove()
        undo()
        hooks.undo()
        other.undo()
    if os.getpid() != own:  # a child that the script has forked and that came back here
        return ended.status
    observer.finish()
    if observer.stopped:
        ended = messages.Ended(how="stopped", status=0)
    messages.write(settings.folder, "ended", observer.observed.rank, ended)
    return ended.status


if __name__ == "__main__":
    sys.exit(main())
