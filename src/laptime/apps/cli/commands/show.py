"""Show a stored run again, in any report."""

import click

from laptime.apps.cli.options import complete_runs, report_options, store_option
from laptime.apps.cli.output import Delivery
from laptime.store import lookup


@click.command("show")
@click.argument("reference", metavar="RUN", default="last", shell_complete=complete_runs)
@click.option("--format", "format_", metavar="NAME", help="Report for stdout: text, json, markdown, html ...")
@store_option
@report_options
def command(*, delivery: Delivery, reference: str, format_: str | None) -> int:
    """Show a stored run again, in any report.

    RUN is `last` (the default), `last~1` for the one before, an id or a unique part of one, the --name
    that it was measured under, or a file.

    \b
    laptime show
    laptime show last~1 -o report.html
    laptime show baseline --format markdown
    """
    delivery.format = format_ or delivery.format
    return delivery.deliver(lookup.load(reference))
