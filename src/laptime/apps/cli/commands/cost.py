"""Say what measured speeds cost on which machine, and what another machine cannot beat."""

from __future__ import annotations

from pathlib import Path

import click

from laptime.apps.cli import completing, output
from laptime.apps.cli.error_boundary import Voice, pass_voice
from laptime.apps.cli.measuring_options import read_by
from laptime.apps.cli.options import report_options, voice_options
from laptime.kit.errors import ExitCode, UsageError
from laptime.kit.quantity import share
from laptime.store import lookup

SUFFIXES = (".html", ".json", ".md", ".txt", ".csv")


def _count(text: str) -> float:
    """`1281167` or `1.28M`: how many samples a training set has."""
    factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1.0)
    try:
        return float(text if factor == 1.0 else text[:-1]) * factor
    except ValueError:
        raise UsageError(
            f"{text!r} is no number of samples",
            why="a number, with k or M behind it if you like",
            next="1.28M",
        ) from None


def _used(text: str) -> float:
    """A utilization: `50%`; `100%` and `1` are all of it."""
    return 1.0 if text.strip() in ("1", "1.0", "100%", "100 %") else share(text)


@click.command("cost")
@click.argument("references", nargs=-1, metavar="[RUN...] | update", shell_complete=completing.runs)
@click.option("--usd-per-hour", type=float, metavar="USD", help="Your own price of the machine; comes first.")
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME",
    help="Machine that the run was measured on: aws:g5.xlarge, oci:VM.Standard.E3.Flex:16:32 (OCPUs, GB), "
    "gcp:g2-standard-4@us-east4. Once for all runs, or once a run.",
)
@click.option(
    "--detect", is_flag=True, help="Ask the cloud's metadata service which machine this is (0.3 s)."
)
@click.option("--spot", is_flag=True, help="Take the price of the table for interruptible machines.")
@click.option("--slo", metavar="50ms@p99", default="", help="Only at rates that keep this latency.")
@click.option("--samples", callback=read_by(_count), metavar="N", help="Samples of the training set: 1.28M.")
@click.option("--epochs", type=float, metavar="N", default=1.0, help="Epochs of the training.  [default: 1]")
@click.option(
    "--rate", type=float, metavar="PER_SECOND", help="Calls that come per second, for a month's bill."
)
@click.option(
    "--utilization",
    callback=read_by(_used),
    metavar="PERCENT",
    default="100%",
    show_default=True,
    help="Share of an hour in which the machine works.",
)
@click.option(
    "--batch",
    "samples_per_step",
    type=float,
    metavar="N",
    help="Samples of a step, where the run does not tell.",
)
@click.option("--where", is_flag=True, help="Look at all known machines: bounds and predictions.")
@click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Your own prices.  [default: machines.local.csv here or in .laptime/]",
)
@report_options
@voice_options
@pass_voice
def command(
    voice: Voice,
    /,
    references: tuple[str, ...],
    usd_per_hour: float | None,
    machines: tuple[str, ...],
    detect: bool,
    spot: bool,
    slo: str,
    samples: float | None,
    epochs: float,
    rate: float | None,
    utilization: float,
    samples_per_step: float | None,
    where: bool,
    prices: Path | None,
    outputs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what measured speeds cost on which machine, and what another machine cannot beat.

    RUN is a stored run (last, last~1, an id, a name, a file) of bench, tune, profile or a load test. Two runs
    are compared: before and after. More are the same program on several machines, for --where.

    The price is yours (--usd-per-hour), or that of the table for --machine or for the machine that the run
    tells. `laptime cost update` fetches the public lists of prices that need no key.

    \b
    laptime cost last
    laptime cost last --machine oci:VM.Standard.E3.Flex:16:32 --slo latency=50ms@p99 --rate 100
    laptime cost train --usd-per-hour 4 --samples 1.28M --epochs 90
    laptime cost before after
    laptime cost last --where -o cost.html
    """
    from laptime.reports.documents.cost import document  # not for `laptime --help`
    from laptime.verbs.cost import CostRequest, cost

    for path in outputs:
        _check_suffix(Path(path))
    if references[:1] == ("update",):
        return _update(voice, references[1:])
    reports = output.planned(outputs)
    request = CostRequest(
        machines=list(machines),
        usd_per_hour=usd_per_hour,
        spot=spot,
        slo=slo,
        samples=samples,
        epochs=epochs,
        rate=rate,
        utilization=utilization,
        where=where,
        detect=detect,
        samples_per_step=samples_per_step,
        prices=prices,
    )
    request.check(len(references) or 1)
    runs = [lookup.load(reference) for reference in references or ("last",)]
    report = document(cost(runs, request))
    output.show(report, format="json" if as_json else "text")
    for error in output.write(report, reports, voice=voice):
        raise error
    return ExitCode.OK


def _update(voice: Voice, rest: tuple[str, ...]) -> int:
    """Fetch the public lists; what was fetched, and what could not be, on stdout."""
    from laptime.pricing.update import update

    results = update(list(rest), voice.say)
    output.result("\n".join(f"{each.name:<7} {each.sentence}" for each in results))
    return ExitCode.OK if all(each.is_new for each in results) else ExitCode.UNDECIDED


def _check_suffix(path: Path) -> None:
    if path.name != "-" and path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"no cost is written to {path.suffix or 'a file without suffix'}: {path}",
            why=f"known suffixes: {' '.join(SUFFIXES)}",
            next="-o cost.html",
        )
