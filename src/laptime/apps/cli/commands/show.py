"""Show a stored run again, in any report."""

from __future__ import annotations

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, pass_voice
from laptime.apps.cli.options import complete_runs, report_options, voice_options
from laptime.store import lookup


@click.command("show")
@click.argument("reference", metavar="RUN", default="last", shell_complete=complete_runs)
@click.option("--format", "format_", metavar="NAME", help="Report for stdout: text, json, markdown, html ...")
@report_options
@voice_options
@pass_voice
def command(
    voice: Voice, /, reference: str, format_: str | None, outputs: tuple[str, ...], as_json: bool
) -> int:
    """Show a stored run again, in any report.

    RUN is `last` (the default), `last~1` for the one before, an id or a unique part of one, the --name
    that it was measured under, or a file.

    \b
    laptime show
    laptime show last~1 -o report.html
    laptime show baseline --format markdown
    """
    reports = output.planned(outputs)
    run = lookup.load(reference)
    format_ = format_ or ("json" if as_json else "text")
    return output.deliver(run, reports, format=format_, voice=voice)
