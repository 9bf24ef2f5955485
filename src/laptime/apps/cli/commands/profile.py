"""Run a script unmodified under the profiler, and say where each step's time goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from laptime.apps.cli import completing, measuring, output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.measuring_options import time_option
from laptime.apps.cli.options import (
    Decorated,
    flags,
    off_option,
    report_options,
    step_by_option,
    store_options,
    voice_options,
)
from laptime.apps.cli.progress import progress
from laptime.kit.errors import ExitCode, UserCodeError
from laptime.store.recording import recorded


def _number(name: str, help: str, *, default: int, least: int = 1) -> Callable[[Decorated], Decorated]:
    return click.option(name, type=click.IntRange(min=least), default=default, show_default=True, help=help)


@click.command(
    "profile", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False}
)
@click.argument("program", metavar="SCRIPT.py|TARGET", shell_complete=completing.targets)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@click.option(
    "--python", metavar="PATH", default="", help="Interpreter to run it with. [default: laptime's own]"
)
@_number("--steps", "Steps to trace.", default=5)
@_number("--warmup", "Steps with the profiler on, but not recorded.", default=2, least=0)
@_number("--wait", "Steps before the profiler starts.", default=3, least=0)
@_number("--repeat", "Traces to record; the report is about the last.", default=1)
@step_by_option("What a step is. [default: the first of these that the script has]")
@off_option("--no-stack", "stack", "Record no call stacks and no modules.")
@off_option("--no-memory", "memory", "Record no memory.")
@click.option(
    "--batch", type=click.IntRange(min=1), help="Batch size of a TARGET. [default: that of its inputs]"
)
@click.option("--dtype", default="float32", show_default=True, metavar="NAME", help="Data type of a TARGET.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="Device of a TARGET.")
@time_option("--timeout", "Interrupt the script after this time.", default="30m")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep the trace in this folder. [default: beside the run]",
)
@store_options
@report_options
@voice_options
@click.pass_context
def command(context: click.Context, /, outputs: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Run a script unmodified under the profiler, and say where each step's time goes.

    Steps are found from the script's optimizer, its DataLoader or its model's calls. The first steps warm up,
    some are timed, a few are traced; then the script is stopped. Options of laptime come before the script,
    those of the script after it. The script's output is shown as it comes; with --json it goes to stderr.

    \b
    laptime profile train.py --epochs 10
    laptime profile -o report.html -m package.train --config small
    laptime profile torchrun --nproc-per-node 2 train.py
    laptime profile --batch 8 torchvision:resnet18
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.verbs import profile as verb

    voice = context.find_object(Voice) or Voice()
    reports = output.planned(outputs)
    origins = flags(context, given)
    given["arguments"] = list(given["arguments"])
    request = verb.ProfileRequest(**given, output_to_stderr=as_json, quiet=voice.quiet, origins=origins)
    with progress(quiet=voice.quiet, describe=lambda event: []) as show:
        run, complaint = recorded(lambda emit: verb.profile(request, emit), show, save=request.save)
    delivered = measuring.deliver(run, reports, format="json" if as_json else "text", voice=voice)
    for case in run.cases:
        for artifact in case.artifacts:
            opens = "" if artifact.path.endswith(".xplane.pb") else ", Perfetto opens it"
            voice.say(f"trace: {artifact.path}   (laptime trace reads it{opens})")
    if complaint is not None:
        delivered = voice.complain(complaint)
    code = measuring.exit_code(run)
    failure = run.cases[0].failure
    if failure is not None:
        voice.complain(UserCodeError(failure.what, why=failure.why, next=failure.next))
    return code if code == ExitCode.INTERRUPTED else delivered or code
