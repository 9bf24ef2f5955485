"""Copy the runs of a store that several machines share to this machine."""

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.progress import progress


@click.command("pull")
@click.argument("url", metavar="STORE")
@voice_options
@pass_voice
def command(voice: Voice, /, url: str) -> int:
    """Copy the runs of a store that several machines share to this machine.

    STORE is as for laptime push. Runs whose ids this machine has already are left alone, and so is a file
    whose content is not the one that was pushed. Without keeping its runs: laptime list --store STORE.

    \b
    laptime pull /mnt/team/runs
    laptime pull postgresql://laptime@db/runs
    """
    from laptime.store.shared import pull  # not for `laptime --help`

    with progress(quiet=voice.quiet) as listener:
        moved = pull(url, listener)
    output.result(f"pulled: {moved.text}")
    return moved.code
