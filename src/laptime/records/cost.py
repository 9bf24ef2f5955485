"""Machines that can be rented, and what runs cost on them: prices that were counted with, a line a measured
speed, what other machines cannot beat.

A vCPU is a logical CPU, a core a physical one, an OCPU what OCI rents: on x86 one core with both its threads,
on Arm one core (A1) or two (A2, A4). Speed goes with cores, so the three are told apart.

All money is USD. Rates are units per second; a unit is a call, an item of a batch, a sample of a training, a
training step, a request or a token. Keys of laptime.cost/1 are added, never renamed or retyped. NaN and
infinity are written as null."""

from typing import Literal

from msgspec import Struct

from laptime.records.case import Axis
from laptime.records.check import Trust
from laptime.records.quantity import Interval, Quantity

HOURS_PER_MONTH = 730.0
Origin = Literal["builtin", "updated", "local", "flag"]


class Machine(Struct, frozen=True, kw_only=True):
    """One machine. None and "" if the source does not say."""

    provider: str  # aws, azure, gcp, oci, ...; "" if only a price is known
    region: str = ""  # where the price holds
    shape: str  # the provider's name: `g5.xlarge`, `VM.Standard.E3.Flex:16:32`
    vcpus: float | None = None
    cores: float | None = None
    ocpus: float | None = None
    cpu: list[str] = []  # microarchitectures that it may have, names of `data/cpus.csv`
    memory: float | None = None  # GiB (OCI's GB are GiB)
    accelerator: str = ""  # name in `data/accelerators.csv`
    accelerators: float = 0.0  # how many; a share of one below 1
    accelerator_memory: float | None = None  # GiB of each
    usd_per_hour: float  # on demand
    spot_usd_per_hour: float | None = None  # interruptible
    reserved_usd_per_hour: float | None = None  # for a year
    # what hours that an account has free take off the bill of a month, at most
    free_usd_per_month: float | None = None
    # seen, spot_seen: when the prices were seen: YYYY, YYYY-MM or YYYY-MM-DD; spot_seen "": the same day
    seen: str = ""
    spot_seen: str = ""
    source: str = ""  # who said so
    origin: Origin = "builtin"  # laptime's own file, `laptime cost update`, `machines.local.csv`, typed

    @property
    def name(self) -> str:
        """How it is typed: `aws:g5.xlarge`."""
        return f"{self.provider}:{self.shape}" if self.provider else self.shape

    @property
    def key(self) -> tuple[str, str, str]:
        """Two rows with this in common are one machine."""
        return self.provider, self.shape, self.region


class FlexShape(Struct, frozen=True, kw_only=True):
    """A shape whose OCPUs and memory are chosen, each with its own price."""

    provider: str
    shape: str
    # usd_per_ocpu_hour, usd_per_gb_hour: on demand; `spot_factor` of that when it can be interrupted
    usd_per_ocpu_hour: float
    usd_per_gb_hour: float
    # vcpus_per_ocpu, cores_per_ocpu: threads and physical cores of an OCPU
    vcpus_per_ocpu: float
    cores_per_ocpu: float
    # max_ocpus, max_memory: GB, of one machine
    max_ocpus: float
    max_memory: float
    # min_gb, max_gb: GB an OCPU. free_*: an account's, a month.
    min_gb: float
    max_gb: float
    spot_factor: float | None = None
    free_ocpu_hours: float = 0.0
    free_gb_hours: float = 0.0
    # ocpu_part, memory_part: numbers in the provider's price list
    ocpu_part: str = ""
    memory_part: str = ""
    cpu: list[str] = []
    seen: str = ""
    source: str = ""
    origin: Origin = "builtin"

    @property
    def name(self) -> str:
        """How it is typed, without its sizes."""
        return f"{self.provider}:{self.shape}"

    def size_to(self, ocpus: float, memory: float) -> Machine:
        """The machine with so many OCPUs and GB; whether it can be had says `why_not`."""
        price = ocpus * self.usd_per_ocpu_hour + memory * self.usd_per_gb_hour
        free = min(self.free_ocpu_hours, HOURS_PER_MONTH * ocpus) * self.usd_per_ocpu_hour
        free += min(self.free_gb_hours, HOURS_PER_MONTH * memory) * self.usd_per_gb_hour
        return Machine(
            provider=self.provider,
            region="all commercial" if self.provider == "oci" else "",
            shape=f"{self.shape}:{ocpus:g}:{memory:g}",
            vcpus=ocpus * self.vcpus_per_ocpu,
            cores=ocpus * self.cores_per_ocpu,
            ocpus=ocpus,
            cpu=self.cpu,
            memory=memory,
            usd_per_hour=price,
            spot_usd_per_hour=None if self.spot_factor is None else price * self.spot_factor,
            free_usd_per_month=free or None,
            seen=self.seen,
            source=self.source,
            origin=self.origin,
        )

    def why_not(self, ocpus: float, memory: float) -> str:
        """Say why it is not sold in this size; "" if it is."""
        if not (1 <= ocpus <= self.max_ocpus and ocpus == int(ocpus)):
            return f"it has 1 to {self.max_ocpus:g} whole OCPUs"
        least, most = max(1.0, ocpus * self.min_gb), min(self.max_memory, ocpus * self.max_gb)
        if not least <= memory <= most:
            return f"with {ocpus:g} OCPUs it has {least:g} to {most:g} GB"
        return ""


Unit = Literal["call", "item", "sample", "step", "request", "token"]


class Training(Struct, frozen=True, kw_only=True):
    """The cost of a training. `ci95`: 95 % interval of `usd`. `hours`: of all epochs together."""

    samples: float
    epochs: float
    hours: float
    usd_per_epoch: float
    usd: float
    ci95: Interval = None

    @property
    def cost(self) -> Quantity:
        """USD of the whole training."""
        return Quantity.of(self.usd, self.ci95, unit="USD")


class Monthly(Struct, frozen=True, kw_only=True):
    """The cost of serving a given rate for a month of 730 hours."""

    rate: float  # units per second that come
    machines: int  # so many run all month
    utilization: float  # share of what they can do that is used
    usd: float
    usd_per_million: float  # per 1 M units that are really served


class Speed(Struct, frozen=True, kw_only=True):
    """A throughput that a run has, and the conditions under which it holds."""

    run: str  # id
    case: str  # key in the run
    label: str  # what tells it from the others, `batch 8`
    target: str
    axes: dict[str, Axis] = {}
    unit: Unit
    rate: float  # units per second, as is `ci95`
    ci95: Interval = None
    at: str  # the promise that was held there, else "saturation", "training", "a given rate"
    latency: float | None = None  # median of a call (of a step), seconds
    latency_ci95: Interval = None
    tail: float | None = None  # the percentile of the promise
    verdict: Trust = "trusted"  # of the case
    batch: float = 1.0  # units in a call
    # threads, instances: of the program, if they were set
    threads: int | None = None
    instances: int = 1
    device: str = "cpu"  # as frameworks write it
    # host_memory, device_memory: peaks in bytes, None unknown
    host_memory: float | None = None
    device_memory: float | None = None

    @property
    def throughput(self) -> Quantity:
        """Units per second."""
        return Quantity.of(self.rate, self.ci95, unit="1/s")


class Line(Struct, frozen=True, kw_only=True):
    """The cost of one speed on the machine that it was measured on."""

    kind: Literal["measured"] = "measured"
    speed: Speed
    machine: str  # name of the machine
    usd_per_hour: float  # of it, or of the `share` of it that was used
    share: float = 1.0
    usd_per_million: float  # per 1 M units, at the utilization of the whole document
    ci95: Interval = None
    units_per_usd: float
    usd_per_month: float
    training: Training | None = None
    monthly: Monthly | None = None
    cheapest: bool = False  # none of its run costs less

    @property
    def cost(self) -> Quantity:
        """USD per 1 M units."""
        return Quantity.of(self.usd_per_million, self.ci95, unit="USD")


class Priced(Struct, frozen=True, kw_only=True):
    """A machine that a cost was counted with, how it was known, and which of its prices was taken."""

    machine: Machine
    known_by: str  # flag, machine, run, dmi, metadata
    price: str = "listed"  # or spot, reserved, typed
    age: str = ""
    age_days: int | None = None


class Saving(Struct, frozen=True, kw_only=True):
    """One line against another of the same work."""

    before: str
    after: str
    usd_before: float
    usd_after: float
    ratio: float  # cost before over cost after
    ci95: Interval = None
    word: Literal["cheaper", "dearer", "unclear"] = "unclear"
    paired: bool = False  # `ci95` comes from a comparison that was interleaved
    # usd_per_month, usd_per_training: saved, at the rate and the size that were asked about
    usd_per_month: float | None = None
    usd_per_training: float | None = None


class Elsewhere(Struct, frozen=True, kw_only=True):
    """The best possible speed, or a prediction, for a machine that is not at hand."""

    kind: Literal["bounded", "predicted"]  # bounded (a proof), predicted (an estimate with an interval)
    # ruled out (its best case costs more than what was measured, or breaks the promise), open, does not fit
    # (in its memory), unknown (no peaks are known)
    word: Literal["ruled out", "open", "does not fit", "unknown", "estimate"]
    machine: Machine
    age: str = ""
    is_old: bool = False  # its price may not hold any more
    rate: float | None = None  # units per second; of a bound, no more than this
    latency: float | None = None  # seconds, no less than this
    usd_per_million: float | None = None  # the same, no less
    ci95: Interval = None  # of a prediction
    limit: str = ""  # what the bound comes from: compute or memory
    reason: str = ""


class Prediction(Struct, frozen=True, kw_only=True):
    """How predictions were made, and how wrong they are on the machines that were measured."""

    machines: list[str]  # measured ones
    # error, worst: of leaving one out, as a factor (1.2 is 20 %): the geometric mean, and the largest
    error: float | None = None
    worst: float | None = None
    why_not: str = ""  # why nothing is predicted


class Cores(Struct, frozen=True, kw_only=True):
    """A number of threads and instances, on the smallest machine that has the cores for them."""

    threads: int
    instances: int
    case: str
    rate: float
    ci95: Interval = None
    efficiency: float | None = None  # rate over that of one thread, per thread
    cores: float | None = None  # physical ones that it keeps busy, None if the hypervisor hides them
    siblings: bool | None = None  # some threads share a core
    holds: bool | None = None  # the promise; None without one
    machine: str = ""  # sized down to these cores and to the measured memory
    usd_per_hour: float | None = None
    usd_per_million: float | None = None
    cheapest: bool = False


class Excluded(Struct, frozen=True, kw_only=True):
    """A case that has no cost, and why."""

    case: str
    reason: str


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts of a run that costs were counted for."""

    id: str
    name: str
    verb: str
    started: str
    verdict: Trust


class Refused(Struct, frozen=True, kw_only=True):
    """A row of a price file that was left out. `line`: in its file, the first is 1."""

    file: str
    line: int
    name: str
    reason: str


class Work(Struct, frozen=True, kw_only=True):
    """The work that a call cannot do without on any machine: bounds rest on it."""

    flops: dict[str, float]  # by dtype
    weights: float = 0.0  # bytes of parameters that are read
    source: str = ""  # where it comes from, in words


class Cost(Struct, frozen=True, kw_only=True):
    """The whole answer of `laptime cost`."""

    schema: Literal["laptime.cost/1"] = "laptime.cost/1"
    laptime: str
    today: str  # the day that ages of prices are counted to
    currency: Literal["USD"] = "USD"
    hours_per_month: float = HOURS_PER_MONTH
    utilization: float = 1.0  # share of an hour in which the machine works, for USD per 1 M
    slo: str = ""
    prices: str = ""  # file of the user's own prices, if one was named
    runs: list[RunFacts]
    machines: list[Priced]
    lines: list[Line]  # measured, the runs in the order given
    savings: list[Saving] = []
    cores: list[Cores] = []
    elsewhere: list[Elsewhere] = []  # machines that are not at hand
    work: Work | None = None
    prediction: Prediction | None = None
    excluded: list[Excluded] = []
    warnings: list[str] = []
    refused: list[Refused] = []
