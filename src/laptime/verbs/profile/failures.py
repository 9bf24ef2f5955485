"""Why a script failed, or had no step to measure: in the words that its user reads."""

from __future__ import annotations

from laptime.instrument.messages import Ended
from laptime.kit.errors import Died, Hung, LaptimeError, Unavailable, UsageError, UserCodeError
from laptime.launch.script import Outcome, Program
from laptime.process.program import ending

_OPTIONS = {"-o", "--output", "--json", "--steps", "--warmup", "--wait", "--trace", "--no-save", "--timeout"}
"""Options of laptime that people write behind the script, where they are the script's."""


def failure_of(program: Program, outcome: Outcome) -> LaptimeError | None:
    """Why the script has failed, None when it has not. Its traceback was shown when it happened."""
    name = program.subject.target
    if outcome.hung is not None:
        return Hung(
            f"{name} was still running after {outcome.hung:g} s",
            why="its steps are slow, or it waits for something that never comes",
            next=f"--timeout {outcome.hung * 4:g}s   or fewer steps: --wait 1 --warmup 1 --steps 2",
        )
    if outcome.interrupted or any(ended.how == "stopped" for ended in outcome.ended):
        return None
    raised = next((ended for ended in outcome.ended if ended.how == "raised"), None)
    if raised is not None:
        return _raised(name, raised, program)
    if outcome.status < 0:
        what = f"{name} {ending(outcome.status)}"
        return Died(what, why="native code crashed, or memory ran out", next="python -X faulthandler ...")
    if outcome.status > 0:
        what = f"{name} {ending(outcome.status)}"
        misplaced = [word for word in program.words if word.partition("=")[0] in _OPTIONS]
        if outcome.status == 2 and misplaced:  # argparse's way to refuse an option
            next_step = (
                f"options of laptime come before the script: laptime profile {misplaced[0]} ... {name}"
            )
            return UserCodeError(what, why=f"it was given {misplaced[0]}", next=next_step)
        return UserCodeError(what, why="sys.exit says so", next="run it without laptime first")
    return None


def _raised(name: str, raised: Ended, program: Program) -> LaptimeError:
    if raised.error.startswith(("ModuleNotFoundError", "ImportError")) and "torch" in raised.error:
        return Unavailable(
            f"{name} could not import torch",
            why=f"{raised.error}, in {program.python}",
            next="laptime profile --python $(which python) ...   takes the interpreter that has it",
        )
    return UserCodeError(f"{name} failed", why=raised.error, next="its traceback is above")


def no_step(program: Program, outcome: Outcome) -> LaptimeError:
    """The error of a script that ended well without a step: what was looked for, and what came."""
    name = program.subject.target
    if outcome.interrupted:
        return UserCodeError(f"{name} was interrupted before its first step", next="give it more time")
    if any(process.tensorflow for process in outcome.observed):
        return UsageError(
            f"no step was found in {name}",
            why="a step of a TensorFlow program is a call of a tf.function, as in Keras's fit and predict",
            next="compile the step: @tf.function, or model.compile(run_eagerly=False)",
        )
    if not any(process.torch for process in outcome.observed):
        return UsageError(
            f"no step was found in {name}: it does not use torch",
            why="a step is an optimizer's step, a batch of a DataLoader, or a call of an nn.Module",
            next="laptime profile the script that trains, or -m its module",
        )
    signals = outcome.observed[0].seen
    came = ", ".join(f"{count} {kind}" for kind, count in signals.items()) or "none of them"
    return UsageError(
        f"no step was found in {name}",
        why="looked for steps of a torch optimizer, batches of a DataLoader, calls of an nn.Module, on the "
        f"main thread of the script and the ranks of torchrun; came: {came}",
        next="give it more than one batch   or   --step-by loader",
    )
