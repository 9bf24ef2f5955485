"""Check that an earlier result of `tune` still holds."""

from pathlib import Path
from typing import Any

import click

from laptime.apps.cli.options import ask_for, make_request, report_options
from laptime.apps.cli.output import Delivery, session_code
from laptime.apps.cli.progress import Lines
from laptime.kit.errors import ExitCode
from laptime.tuning.session.verify import VerifyRequest, holds

_CODES = {True: ExitCode.OK, False: ExitCode.NO, None: ExitCode.UNDECIDED}


@click.command("verify")
@click.argument("recipe", metavar="RECIPE|RUN", type=click.Path(path_type=Path))
@ask_for(VerifyRequest)
@report_options
def command(*, delivery: Delivery, recipe: Path, **given: Any) -> int:
    """Check that an earlier result of `tune` still holds, for example after an upgrade of torch.

    RECIPE is the .laptime.json file that `tune` wrote beside the patch, or the recipe.json of a model's
    folder. verify times the script with and without the recipe in new processes and compares outputs, losses,
    gradients and weights of a few steps again; for a model it compares the outputs.

    RUN is a stored session, as for `laptime show`. For a server it is the only way: the server is started as
    it was and with the final flags, and its answers and speed are compared again.

    Exit codes: 0 still faster and the same, 1 no longer, 3 undecided.

    \b
    laptime verify train.laptime.json
    laptime verify --budget 2m train.laptime.json -o verified.html
    laptime verify FOLDER/recipe.json
    laptime verify last
    """
    from laptime.tuning.api import verification  # not for `laptime verify --help`

    check, request, items = verification(make_request(VerifyRequest, given, recipe=recipe))
    ended = delivery.watch(check, request, save=request.save, describe=Lines(items))
    code = session_code(ended[0])
    if code not in (ExitCode.INTERRUPTED, ExitCode.USER_CODE):
        code = _CODES[holds(ended[0])]
    code = delivery.finish(ended, code)
    delivery.say_failures(ended[0])
    return code
