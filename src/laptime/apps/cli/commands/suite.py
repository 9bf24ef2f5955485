"""Named benchmarks with budgets: run them, list them, PerfZero's among them."""

import click

from laptime.apps.cli.main import Commands
from laptime.apps.cli.options import voice_options


class SuiteCommands(Commands):
    """The words after `laptime suite`: files of a room of their own."""

    room = "suite_commands"


@click.command("suite", cls=SuiteCommands, invoke_without_command=True)
@voice_options
@click.pass_context
def command(context: click.Context) -> None:
    """Named benchmarks with budgets: run them, list them.

    \b
    laptime suite list
    laptime suite run standard --quick
    laptime suite run benchmarks.toml --match vision -o report.html
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
