"""Show a metric over stored runs, commits or versions, and where its level changed."""

import click

from laptime.apps.cli.options import report_options, store_option
from laptime.apps.cli.output import Delivery
from laptime.verbs.history import By, history


@click.command("history")
@click.argument("pattern", metavar="[TARGET]", default="*")
@click.option("--metric", metavar="TAG", default="", help="Metric to show. [default: median latency]")
@click.option(
    "--by",
    type=click.Choice(["run", "commit", "version", "machine"]),
    default="run",
    show_default=True,
    help="Group runs by commit, or by the library versions or machines that differ.",
)
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Newest runs to show, at most.",
)
@click.option("--force", is_flag=True, help="Put runs under different conditions into one history.")
@store_option
@report_options
def command(*, delivery: Delivery, pattern: str, metric: str, by: By, last: int, force: bool) -> int:
    """Show a metric over stored runs, commits or versions, and where its level changed.

    TARGET is a case key, a target or the name of runs; * and ? are wildcards. Runs under different
    conditions (machine, driver, libraries ...) get histories of their own. The chance of reporting a change
    that did not happen is 1 % (docs/history.md).

    \b
    laptime history
    laptime history torchvision:resnet18 --metric memory/host/peak -o history.html
    laptime history 'torchvision:*' --by version
    """
    from laptime.reports.documents.history import document  # not for `laptime --help`

    return delivery.deliver(document(history(pattern, metric=metric, by=by, last=last, force=force), by=by))
