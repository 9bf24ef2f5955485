"""Copy the runs of this machine into a store that several machines share."""

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.progress import progress


@click.command("push")
@click.argument("url", metavar="STORE")
@voice_options
@pass_voice
def command(voice: Voice, /, url: str) -> int:
    """Copy the runs of this machine into a store that several machines share.

    STORE is a folder, a bucket's URL (s3://..., gs://..., any of fsspec) or postgresql://USER@HOST/NAME. A
    run that is there already is left alone, so the same command again copies what is new. Files of this
    machine stay as they are; traces of runs are not copied. PGPASSWORD may hold the password.

    \b
    laptime push /mnt/team/runs
    laptime push postgresql://laptime@db/runs
    """
    from laptime.store.shared import push  # not for `laptime --help`

    with progress(quiet=voice.quiet) as listener:
        moved = push(url, listener)
    output.result(f"pushed: {moved.text}")
    return moved.code
