"""Say what measured speeds cost on which machine, and what another machine cannot beat."""

from typing import Any

import click

from laptime.apps.cli.options import ask_for, complete_runs, make_request, report_options
from laptime.apps.cli.output import Delivery, result
from laptime.kit.errors import ExitCode
from laptime.store import lookup
from laptime.verbs.cost.request import CostRequest


@click.command("cost")
@click.argument("references", nargs=-1, metavar="[RUN...] | update", shell_complete=complete_runs)
@ask_for(CostRequest)
@report_options
def command(*, delivery: Delivery, references: tuple[str, ...], **given: Any) -> int:
    """Say what measured speeds cost on which machine, and what another machine cannot beat.

    RUN is a stored run (last, last~1, an id, a name, a file) of bench, tune, profile or a load test. Two runs
    are compared: before and after. Three or more are the same program on several machines, for --where.

    The price is yours (--usd-per-hour), or the listed one for --machine or for the machine that the
    run names. `laptime cost update` fetches the public lists of prices that need no key.

    \b
    laptime cost last
    laptime cost last --machine oci:VM.Standard.E3.Flex:16:32 --slo latency=50ms@p99 --rate 100
    laptime cost train --usd-per-hour 4 --samples 1.28M --epochs 90
    laptime cost before after
    laptime cost last --where -o cost.html
    """
    from laptime.reports.documents.cost import document  # not for `laptime --help`
    from laptime.verbs.cost.run import cost

    if references[:1] == ("update",):
        from laptime.pricing.update import update

        results = update(list(references[1:]), delivery.voice.say)
        result("\n".join(f"{result.name:<7} {result.sentence}" for result in results))
        return ExitCode.OK if all(result.is_new for result in results) else ExitCode.UNDECIDED
    request = make_request(CostRequest, given)
    request.check(len(references) or 1)
    runs = [lookup.load(reference) for reference in references or ("last",)]
    return delivery.deliver(document(cost(runs, request)))
