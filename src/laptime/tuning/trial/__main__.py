"""`python -m laptime.tuning.trial [-u] [-m] SCRIPT [ARGUMENTS...]`: what `python SCRIPT ...` does, tried.

What to do comes from the environment (`plan.VARIABLE`). `torchrun` starts its ranks with the program that
PYTHON_EXEC names; if that is this one, each rank is a trial. Other children of the script are not."""

import os
import sys

from laptime.instrument import program
from laptime.tuning.optimization import IN_FILE
from laptime.tuning.trial.messages import TrialPlan
from laptime.tuning.trial.process import TrialProcess


def main() -> int:
    """Run the script; its exit status, 0 when we have stopped it."""
    plan = TrialPlan.from_environment()
    words = [word for word in sys.argv[1:2] if word != "-u"] + sys.argv[2:]
    if plan is None or not words:
        sys.exit("this is for `laptime tune SCRIPT`")
    given = [word for change in plan.base for word in change.get("options", {}).get("arguments", ())]
    arguments = [word for word in given if not IN_FILE.fullmatch(word)]
    if arguments and words[-len(arguments) :] != arguments:  # torchrun hands them on to its ranks
        words += arguments
    is_module = words[0] == "-m"
    pid = os.getpid()
    process = TrialProcess(plan)
    process.open()
    ended = program.run(words[1:] if is_module else words, is_module=is_module)
    if os.getpid() != pid:  # a child that the script has forked and that came back here
        return ended.status
    status = 0 if process.hooks.stopped else ended.status
    process.result.status = status
    if not process.hooks.stopped:
        process.result.ended = ended.how
        process.result.error, process.result.traceback = ended.error, ended.traceback
    process.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
