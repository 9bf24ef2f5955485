"""What `laptime cost` can be asked."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

from msgspec import Struct

from laptime.kit.errors import UsageError
from laptime.pricing.promises import promise


class CostRequest(Struct, frozen=True, kw_only=True):
    """Options, as typed.

    Attributes:
        machines: names, one for all runs or one a run; none: what the runs and this machine tell.
        usd_per_hour: the user's own price, before any table.
        spot: the interruptible price of the table.
        slo: a promise about latency, `50ms@p99`; "" none.
        samples, epochs: of a training.
        rate: units per second that come, for a month's bill.
        utilization: share of an hour in which the machine works.
        where: look at all machines that are known.
        detect: ask the cloud's metadata service which machine this is.
        samples_per_step: of a training whose run does not tell it.
        prices: file of the user's own prices; None looks in the usual places.
        today: the day that ages are counted to; None is today.
    """

    machines: list[str] = []
    usd_per_hour: float | None = None
    spot: bool = False
    slo: str = ""
    samples: float | None = None
    epochs: float = 1.0
    rate: float | None = None
    utilization: float = 1.0
    where: bool = False
    detect: bool = False
    samples_per_step: float | None = None
    prices: Path | None = None
    today: date | None = None

    def check(self, runs: int) -> None:
        """Raise what is wrong with the options themselves.

        Raises:
            UsageError: a number is impossible, a promise is none, or options do not go together.
        """
        for option, value in (
            ("--usd-per-hour", self.usd_per_hour),
            ("--samples", self.samples),
            ("--epochs", self.epochs),
            ("--rate", self.rate),
            ("--batch", self.samples_per_step),
        ):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(
                    f"{option} {value:g} is impossible",
                    why="it must be a number above zero",
                    next=f"{option} 4",
                )
        if self.slo:
            promise(self.slo)
        if len(self.machines) not in (0, 1, runs):
            raise UsageError(
                f"{len(self.machines)} machines for {runs} runs",
                why="--machine is given once for all runs, or once a run, in their order",
                next="laptime cost RUN RUN --machine aws:g5.xlarge --machine aws:g6.xlarge",
            )
        if self.spot and self.usd_per_hour is not None:
            raise UsageError(
                "--spot takes a price of the table, --usd-per-hour is one",
                why="only one of them can hold",
                next="--usd-per-hour 1.2",
            )
