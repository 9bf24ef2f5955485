"""The request of `laptime cost`."""

from datetime import date
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from laptime.analysis.promises import promises
from laptime.kit import typed
from laptime.kit.errors import UsageError, refuse_not_positive
from laptime.kit.options import Option
from laptime.kit.text import count
from laptime.kit.units import share
from laptime.records.plan import Origin


def _use(text: str) -> float:
    """A utilization: `50%`; `100%` and `1` are all of it."""
    return 1.0 if text.strip() in ("1", "1.0", "100%", "100 %") else share(text)


class CostRequest(Struct, frozen=True, kw_only=True):
    """The request of `laptime cost`.

    Attributes:
        today: the day that ages are counted to; None is today.
    """

    usd_per_hour: Annotated[float | None, Option("Price of the machine, instead of a listed one.", "USD")] = (
        None
    )
    machines: Annotated[
        list[str],
        Option(
            "Machine of the run: aws:g5.xlarge, oci:VM.Standard.E3.Flex:16:32 (OCPUs, GB), "
            "gcp:g2-standard-4@us-east4. Give it once, or once for each run.",
            "NAME",
            flags="--machine",
            repeatable=True,
        ),
    ] = []
    detect: Annotated[bool, Option("Ask the cloud's metadata service which machine this is (0.3 s).")] = False
    spot: Annotated[bool, Option("Use prices of interruptible machines.")] = False
    reserved: Annotated[bool, Option("Use prices of machines that are reserved for a year.")] = False
    slo: Annotated[str, Option("Use only rates that keep this latency.", "50ms@p99")] = ""
    samples: Annotated[
        float | None, Option("Samples in the training set: 1.28M.", "N", read=typed.amount)
    ] = None
    epochs: Annotated[float, Option("Epochs to train.", "N")] = 1.0
    rate: Annotated[float | None, Option("Calls per second, for a monthly bill.", "PER_SECOND")] = None
    utilization: Annotated[
        float, Option("Share of time that the machine is busy.  [default: 100%]", "PERCENT", read=_use)
    ] = 1.0
    samples_per_step: Annotated[
        float | None, Option("Samples in a step, if the run does not record them.", "N", flags="--batch")
    ] = None
    where: Annotated[bool, Option("Compare all known machines: bounds and predictions.")] = False
    prices: Annotated[
        Path | None,
        Option("Your own price list.  [default: machines.local.csv here or in .laptime/]", "FILE"),
    ] = None
    today: date | None = None
    origins: dict[str, Origin] = {}

    def check(self, runs: int) -> None:
        """Raise what is wrong with the options themselves.
        Raises UsageError: a number is impossible, a promise cannot be read, or options do not go together."""
        refuse_not_positive(
            ("--usd-per-hour", self.usd_per_hour, "4"),
            ("--samples", self.samples, "4"),
            ("--epochs", self.epochs, "4"),
            ("--rate", self.rate, "4"),
            ("--batch", self.samples_per_step, "4"),
        )
        promises(self.slo)
        if len(self.machines) not in (0, 1, runs):
            raise UsageError(
                f"--machine names {count(len(self.machines), 'machine')} for {count(runs, 'run')}",
                why="give --machine once for all runs, or once for each run, in their order",
                next="name one machine, or one for each run",
            )
        prices = ("--spot", self.spot), ("--reserved", self.reserved), ("--usd-per-hour", self.usd_per_hour)
        if len(asked := [name for name, is_asked in prices if is_asked]) > 1:
            why, next = "each of them sets the price", "laptime cost last --usd-per-hour 1.2"
            raise UsageError(f"{asked[0]} and {asked[1]} do not go together", why=why, next=next)
