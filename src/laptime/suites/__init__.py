"""Named benchmarks: what a suite file says, as records.

A suite is a TOML file (see standard.toml), or a Python file that builds one:

    from laptime.suites import Benchmark, Suite

    suite = Suite(
        name="mine",
        benchmark=[Benchmark(name=f"b{n}", target="model.py:build", batch=[n]) for n in (1, 8)],
    )

One benchmark is one `laptime bench`, in processes of its own, and one stored run.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec
from msgspec import Struct

from laptime.records.plan import BenchRequest
from laptime.records.run import Subject

LARGE = "large"
"""Tag of benchmarks that `--quick` leaves out."""


class Benchmark(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One named benchmark.

    Attributes:
        name: unique in its suite.
        target: what is measured; `targets` are measured side by side and compared, the first is the baseline.
        batch, dtype, threads: axes; every combination is a case.
        train: an optimizer (sgd, adamw) measures full training steps.
        trials: fresh processes of each variant.
        precision, budget, timeout: as the options of `laptime bench`, or numbers (a share, seconds).
        max, min: limits of metrics in every case: `{latency = "20 ms", "memory/host/peak" = "2 GiB"}`.
            Names are `latency` (median), `throughput`, or any tag of the JSON report; bare numbers are in
            SI units.
        regression: the most that latency may be above the stored baseline: `5%`.
        tags: words to choose it by; `large` ones are left out by --quick.
        The rest is as the options of `laptime bench`.
    """

    name: str
    target: str = ""
    targets: list[str] = []
    batch: list[int] | int | Literal["auto", "auto:linear"] | None = None
    dtype: list[str] | str = "float32"
    threads: list[int] | int = []
    device: str = "auto"
    backend: list[str] | str = []
    python: dict[str, str] = {}
    options: dict[str, Any] = {}
    shapes: dict[str, list[int]] = {}
    channels_last: bool = False
    compile: str = ""
    train: str = ""
    regimes: list[str] = []
    rate: float | None = None
    preset: Literal["quick", "standard", "strict"] = "standard"
    precision: str | float | None = None
    budget: str | float | None = None
    timeout: str | float = 120.0
    trials: int | None = None
    seed: int = 0
    max: dict[str, str | float] = {}
    min: dict[str, str | float] = {}
    regression: str | float | None = None
    tags: list[str] = []

    @property
    def measured(self) -> list[str]:
        """The targets, however they are written."""
        return self.targets or [self.target]


class Suite(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Benchmarks under one name.

    Attributes:
        name: of its runs in the store: `NAME:BENCHMARK`. The file's name where it says none.
        about: one sentence.
        baseline: the suite name whose latest stored runs regressions are judged against; its own by default.
        benchmark: the benchmarks, in order.
    """

    name: str = ""
    about: str = ""
    baseline: str = ""
    benchmark: list[Benchmark]


def digest(request: BenchRequest, subjects: list[Subject]) -> str:
    """Short hash of what is asked, and of the files it is asked of: a run with the same one answers it."""
    bare = msgspec.structs.replace(request, name="", origins={})
    text = msgspec.json.encode([bare, [subject.sha256 for subject in subjects]], order="sorted")
    return hashlib.sha256(text).hexdigest()[:12]
