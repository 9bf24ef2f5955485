"""Run a script unmodified under the profiler, and say where each step's time goes."""

from typing import Any

import click

from laptime.apps.cli.options import ask_for, complete_targets, make_request, report_options
from laptime.apps.cli.output import Delivery
from laptime.verbs.profile.request import ProfileRequest


@click.command("profile", context_settings={"allow_interspersed_args": False})
@click.argument("program", metavar="SCRIPT.py|TARGET", shell_complete=complete_targets)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@ask_for(ProfileRequest)
@report_options
def command(*, delivery: Delivery, program: str, arguments: tuple[str, ...], **given: Any) -> int:
    """Run a script unmodified under the profiler, and say where each step's time goes.

    Steps are found from the script's optimizer, its DataLoader or its model's calls. The first steps warm up,
    some are timed, a few are traced; then the script is stopped. Options of laptime come before the script,
    options of the script after it. The script's output is shown as it comes; with --json it goes to stderr.

    \b
    laptime profile train.py --epochs 10
    laptime profile -o report.html -m package.train --config small
    laptime profile torchrun --nproc-per-node 2 train.py
    laptime profile --batch 8 torchvision:resnet18
    """
    from laptime.verbs.profile.run import profile  # not for `laptime --help`

    own = {"program": program, "arguments": [*arguments], "output_to_stderr": delivery.as_json}
    request = make_request(ProfileRequest, given, **own, quiet=delivery.voice.quiet)
    ended = delivery.watch(profile, request, save=request.save, describe=lambda event: [])
    code = delivery.finish(ended)
    for artifact in (artifact for case in ended[0].cases for artifact in case.artifacts):
        opens = "" if artifact.path.endswith(".xplane.pb") else ", Perfetto opens it"
        delivery.voice.say(f"trace: {artifact.path}   (laptime trace reads it{opens})")
    delivery.say_failures(ended[0])
    return code
