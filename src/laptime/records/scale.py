"""A training on a number of ranks: what a step of all of them is, and what they exchanged in traced steps."""

from msgspec import Struct

from laptime.records.overview import Straggler
from laptime.records.series import read_metrics

(RATE,) = read_metrics("""
step/rate 1/s higher samples per second
    Samples of a step of all ranks over the mean time of their untraced steps; one number a job.
    Lies when: A step's samples are not what its loader or its model was given: --batch N says how many.
""")


class Exchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Communication of several ranks in traced steps."""

    # step_ns, exposed_ns: mean over ranks of a step under the profiler, and of communication in it while
    # nothing computes
    step_ns: float
    exposed_ns: float
    collectives: int  # that all ranks met in
    waiting: float | None = None  # share of their time that is waiting for the last rank
    stragglers: list[Straggler] = []

    @property
    def exposed_share(self) -> float:
        """Of a traced step."""
        return self.exposed_ns / self.step_ns if self.step_ns else 0.0


class OnRanks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of a case of `laptime scale`."""

    samples: float  # in a step of all ranks
    # in an epoch: batches of a rank's loader x samples of a step; None: not known
    epoch: float | None = None
    exchange: Exchange | None = None
    # real machines that the ranks ran on, and the most ranks that shared the CPUs of one; 0: all of them
    machines: int = 1
    crowd: int = 0
    # the price of an epoch: USD, and its 95 % interval
    usd: float | None = None
    usd_ci95: tuple[float, float] | None = None
