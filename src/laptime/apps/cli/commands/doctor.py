"""Show what this machine can measure, and the smallest difference it can show."""

import click

from laptime.apps.cli.options import on_option, report_options
from laptime.apps.cli.output import Delivery
from laptime.apps.cli.progress import progress
from laptime.kit.errors import ExitCode, UsageError


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Skip the slow part: do not measure peak rates.")
@click.option("--fresh", is_flag=True, help="Measure the peak rates again, even if they are stored.")
@click.option("--links", is_flag=True, help="Measure the links of the machines of --on, too, by all-reduces.")
@on_option
@report_options
def command(*, delivery: Delivery, quick: bool, fresh: bool, links: bool) -> int:
    """Show what this machine can measure, and the smallest difference it can show.

    Checks limits, clocks, other processes, timers, devices and energy meters; measures peak rates (stored
    until the machine changes) and times a program against itself. Every warning comes with the command that
    fixes it; laptime itself changes nothing.

    With --on, measure several machines in turns, and name those that are slower than the others of their
    kind; with --links, the latency and bandwidth of every two of them, too. Exit codes then: 0 none is slow,
    1 one is, 2 a link cannot be measured, 3 undecided, 4 one was lost.
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.reports.documents.doctor import document
    from laptime.verbs.doctor import examine

    if links and not delivery.on:
        next = "laptime doctor --links --on ssh:HOST,HOST"
        raise UsageError("--links measures between machines", why="--on names them", next=next)
    if delivery.on:
        from functools import partial

        from laptime.reports.documents import fleet
        from laptime.verbs.doctor.fleet import LEAST, TURNS, examine_fleet

        verb = partial(examine_fleet, turns=LEAST if quick else TURNS, links=links)
        ended = delivery.watch(verb, delivery.machines(), save=True, describe=lambda event: [])
        codes = {"slow": ExitCode.NO, "undecided": ExitCode.UNDECIDED, "not compared": ExitCode.UNDECIDED}
        code = delivery.finish(ended, codes.get(fleet.headline(ended[0]).word))
        delivery.say_failures(ended[0])
        return code
    with progress(quiet=delivery.voice.quiet) as listener:
        report = examine(quick=quick, fresh=fresh, emit=listener)
    return delivery.deliver(document(report))
