"""Measure how a training script's speed grows with its ranks, and what keeps it from growing more."""

from functools import partial
from typing import Any

import click

from laptime.apps.cli.options import ask_for, complete_targets, make_request, on_option, report_options
from laptime.apps.cli.output import Delivery
from laptime.kit.errors import ExitCode
from laptime.verbs.scale.request import ScaleRequest


@click.command("scale", context_settings={"allow_interspersed_args": False})
@click.argument("program", metavar="SCRIPT.py", shell_complete=complete_targets)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@on_option
@ask_for(ScaleRequest)
@report_options
def command(*, delivery: Delivery, program: str, arguments: tuple[str, ...], **given: Any) -> int:
    """Measure how a training script's speed grows with its ranks, and what keeps it from growing more.

    torchrun starts the script, unedited, on each number of ranks, in fresh jobs and in random order; a job is
    stopped once its steps are timed. Weak scaling leaves every rank its batch; for strong scaling loaders'
    batches are divided by the ranks. Options of laptime come before the script. A rank has the threads that
    OMP_NUM_THREADS says, else this machine's CPUs over the most ranks.

    With --on, ranks run on those machines: one is filled before the next one gets any.

    With --target, exit codes: 0 reached, 1 not by any measured number of ranks, 3 undecided.

    \b
    laptime scale --ranks 1,2,4 train.py --epochs 10
    laptime scale --ranks 1,2 --target 5000 --usd-per-hour 4 -m package.train
    laptime scale --ranks 8,16,32 --on slurm train.py
    """
    # Not for `laptime --help`.
    from laptime.records.quantity import BROKEN, KEPT, UNDECIDED
    from laptime.reports.documents.scale import answer
    from laptime.verbs.scale.run import scale

    request = make_request(ScaleRequest, given, program=program, arguments=[*arguments])
    verb = partial(scale, machines=delivery.machines(request))
    ended = delivery.watch(verb, request, save=request.save, describe=lambda event: [])
    codes = {KEPT: ExitCode.OK, BROKEN: ExitCode.NO, UNDECIDED: ExitCode.UNDECIDED}
    asked = answer(ended[0]) if ended[0].status == "complete" else None
    code = delivery.finish(ended, codes[asked.word] if asked else None)
    delivery.say_failures(ended[0])
    return code
