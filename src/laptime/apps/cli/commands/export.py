"""Hand a run's numbers to MLflow, W&B, TensorBoard, Prometheus or OpenTelemetry."""

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, pass_voice
from laptime.apps.cli.options import complete_extensions, complete_runs, voice_options


@click.command("export")
@click.argument("name", metavar="NAME", shell_complete=complete_extensions("exports"))
@click.argument("reference", metavar="RUN", default="last", shell_complete=complete_runs)
@click.option(
    "--to",
    "place",
    default="",
    metavar="PLACE",
    help="File, folder or address (http://...). Without an address the network is not used.",
)
@voice_options
@pass_voice
def command(voice: Voice, /, name: str, reference: str, place: str) -> None:
    """Send the numbers of a stored run to another tool.

    NAME is mlflow, opentelemetry, prometheus, tensorboard or wandb; if its library is missing, the error
    says how to install it. Every statistic of every case is sent with the ends of its interval,
    under its name in docs/metrics.md, in SI units, beside the verdict.

    \b
    laptime export tensorboard
    laptime export prometheus last --to laptime.prom
    laptime export mlflow baseline --to http://127.0.0.1:5000
    """
    from laptime.edges import exports  # not for `laptime --help`
    from laptime.store import lookup

    seen_by = exports.send(lookup.load(reference), name, place)
    output.result(f"Exported to {name}: {seen_by}")
