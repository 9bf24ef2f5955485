"""One measured point: a target on one value of every axis."""

from typing import Literal

from msgspec import Struct, structs

from laptime.records.check import Check, Trust, trust
from laptime.records.details import Details
from laptime.records.details import Failure as Failure
from laptime.records.requests import Requests
from laptime.records.series import Series

Status = Literal["ok", "failed", "skipped", "interrupted"]
Axis = str | int | float | bool
AS_GIVEN = "as given"  # the axis `batch` of inputs in which nothing tells it; throughput then counts calls


class Artifact(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that belongs to a case."""

    kind: str
    path: str
    size: int
    sha256: str


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One measured point."""

    key: str  # stable and unique in the run: `torchvision:resnet18/batch=8/dtype=float32/device=cpu`
    target: str  # what the user named
    axes: dict[str, Axis]  # every axis value that holds for this case (batch, dtype, device, threads, ...)
    status: Status = "ok"  # ok, failed (see `failure`), skipped, interrupted (what was measured is kept)
    failure: Failure | None = None
    series: list[Series] = []  # raw samples, one entry for each (metric tag, regime)
    # of a level of load, a row each; their columns are read like series (`samples`, `find`)
    requests: Requests | None = None
    checks: list[Check] = []  # whether these numbers can be trusted
    artifacts: list[Artifact] = []
    details: Details = Details()  # receipts and facts that are no series

    def __repr__(self) -> str:
        return f"Case({self.key!r}, {self.status}, {self.trust}, series={self.series})"

    @property
    def trust(self) -> Trust:
        """trusted, noisy or invalid, from the checks; failed and unchecked interrupted cases are invalid."""
        unchecked = self.status == "interrupted" and not self.checks
        return "invalid" if unchecked or self.status in ("failed", "skipped") else trust(self.checks)

    @property
    def batch(self) -> int:
        """Items in one call; 1 when the case has no batch axis, or nothing tells what the batch is."""
        batch = self.axes.get("batch", 1)
        return batch if isinstance(batch, int) and batch > 0 else 1

    @property
    def instances(self) -> int:
        """Copies of the program, or ranks, that ran at the same time; its throughput is that of all."""
        number = self.axes.get("instances", self.axes.get("ranks", 1))
        return number if isinstance(number, int) and number > 0 else 1

    @property
    def items(self) -> int:
        """Items that all instances work on at the same time."""
        return self.batch * self.instances

    @property
    def samples(self) -> list[Series]:
        """All samples: the series, and the columns of the requests."""
        return [*self.series, *(self.requests.series if self.requests else [])]

    def find(self, tag: str, regime: str | None = None) -> Series | None:
        """The samples of one metric and regime, or None."""
        found = next((s for s in self.series if s.key == (tag, regime)), None)
        if found is None and self.requests is not None and self.requests.regime == regime:
            return self.requests.find(tag)
        return found

    def with_series(self, more: Series) -> "Case":
        """This case with samples added to the series they belong to."""
        if not any(each.key == more.key for each in self.series):
            return structs.replace(self, series=[*self.series, more])
        joined = [each.extend(more) if each.key == more.key else each for each in self.series]
        return structs.replace(self, series=joined)

    def with_requests(self, more: Requests) -> "Case":
        """This case with more rows behind those of its requests."""
        return structs.replace(self, requests=self.requests.extend(more) if self.requests else more)


def case_key(target: str, axes: dict[str, Axis]) -> str:
    """Key of a case: the target, then the axes in the order given."""
    return "/".join([target.rstrip("/"), *(f"{name}={value}" for name, value in axes.items())])
