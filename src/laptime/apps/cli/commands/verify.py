"""Check that an earlier result of `tune` still holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laptime.apps.cli import output, tuning
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.measuring_options import time_option
from laptime.apps.cli.options import flags, report_options, store_options, voice_options
from laptime.kit.errors import ExitCode

if TYPE_CHECKING:
    from laptime.records.event import Listener
    from laptime.records.run import Run

_CODES = {True: ExitCode.OK, False: ExitCode.NO, None: ExitCode.UNDECIDED}


@click.command("verify")
@click.argument("recipe", metavar="RECIPE", type=click.Path(path_type=Path))
@time_option("--budget", "Time limit of the whole check: 90s, 5m, 1h.", default="5m")
@tuning.trial_options
@store_options
@report_options
@voice_options
@click.pass_context
def command(context: click.Context, /, outputs: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Check that an earlier result of `tune` still holds, for example after an upgrade of torch.

    RECIPE is the .laptime.json file that `tune` wrote beside the patch, or the recipe.json of a model's
    folder. verify times the script with and without the recipe in new processes and compares outputs, losses,
    gradients and weights of a few steps again; of a model it compares the outputs.

    Exit codes: 0 still faster and is the same, 1 not any more, 3 undecided.

    \b
    laptime verify train.laptime.json
    laptime verify --budget 2m train.laptime.json -o verified.html
    laptime verify FOLDER/recipe.json
    """
    from laptime.tuning.session import verify as verb

    voice = context.find_object(Voice) or Voice()
    reports = output.planned(outputs)
    request = verb.VerifyRequest(**settings, origins=flags(context, settings))
    check, items = _check_of(request.recipe)
    recorded = tuning.record(check, request, save=request.save, quiet=voice.quiet, items=items)
    delivered = tuning.deliver(recorded, reports, as_json=as_json, voice=voice)
    code = tuning.exit_code(recorded[0])
    if code not in (ExitCode.INTERRUPTED, ExitCode.USER_CODE):
        code = _CODES[verb.holds(recorded[0])]
    return code if code == ExitCode.INTERRUPTED else delivered or code


def _check_of(recipe: Path) -> tuple[Callable[[Any, Listener], Run], str]:
    """What checks this file, that of a script or that of a model's folder; and what its rates count."""
    from laptime.tuning.inference import folder_file
    from laptime.tuning.inference.verify import verify_model
    from laptime.tuning.session import verify as verb

    return (verify_model, "items") if folder_file.is_one(recipe) else (verb.verify, "")
