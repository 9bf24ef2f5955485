"""Runs made by hand, for tests of reports, stores and comparisons: the same numbers every time.

`scenarios()` has one run for each thing that a report must be able to say.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from laptime.analysis.compare import sentence
from laptime.records.case import Axis, Case, Failure, case_key
from laptime.records.check import Check
from laptime.records.comparison import Comparison, Word
from laptime.records.environment import Device, Environment
from laptime.records.finding import Finding
from laptime.records.metric import Metric
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Label, Series

LATENCY = Metric(
    tag="latency",
    unit="s",
    title="latency",
    better="lower",
    meaning="time of one call",
    lies_when="the device has not finished when the clock is read",
)
TARGET = "torchvision:resnet18"


def environment() -> Environment:
    """A small virtual machine with two CPUs and no accelerator."""
    return Environment(
        host="build-7",
        os="Linux 6.8, Debian 12",
        python="3.11.9",
        cpu="Example Xeon 8480",
        vcpus=4,
        physical_cores=2,
        usable_cpus=2.0,
        affinity=[0, 1],
        isa=["avx2", "avx512f"],
        memory=16 * 2**30,
        memory_limit=8 * 2**30,
        virtual="KVM",
        load={"1min": 0.4},
        devices=[Device(name="cpu", model="Example Xeon 8480")],
        libraries={"torch": "2.9.0", "torchvision": "0.24.0", "numpy": "2.3.1"},
        knobs={"torch.num_threads": 2, "deterministic": False},
        git={"commit": "0123456789abcdef", "dirty": False},
    )


def timings(
    level: float,
    *,
    n: int = 120,
    spread: float = 0.01,
    seed: int = 1,
    processes: int = 2,
    warm_up: int = 0,
    disturbed: float = 0.0,
    regime: str = "isolated",
    start: float = 3.0,
) -> Series:
    """Latencies of log-normal shape around `level` seconds, in blocks of ten by process and round.

    Args:
        n: samples of all processes together, warm-up included.
        warm_up: first samples of each process; they are 1.8 times as slow, and labelled.
        disturbed: share of samples that waited for a CPU; two to four times as slow, and labelled.
        start: seconds since the run started at which the first sample was taken.
    """
    dice = random.Random(seed)  # noqa: S311 (not for secrets)
    samples, at, process, label, rounds = [], [], [], [], []
    now, each = start, math.ceil(n / processes)
    for index in range(n):
        own = index // each
        nth = index % each
        value = level * math.exp(dice.gauss(0, spread))
        mark = Label.NONE
        if nth < warm_up:
            value, mark = value * 1.8, Label.WARM_UP
        elif dice.random() < disturbed:
            value, mark = value * dice.uniform(2, 4), Label.WAITED
        samples.append(value)
        at.append(now)
        process.append(own)
        label.append(int(mark))
        rounds.append(nth // 10)
        now += value + (0.5 if nth == each - 1 else 0.0)
    return Series(
        metric=LATENCY,
        regime=regime,
        samples=samples,
        at=at,
        process=process,
        label=label if any(label) else [],
        round=rounds,
        probe="wall",
        clock="perf_counter",
    )


def single(tag: str, unit: str, value: float, *, title: str = "", better: str = "lower") -> Series:
    """A metric that is measured once."""
    metric = Metric(tag=tag, unit=unit, title=title or tag.rpartition("/")[2], better=better)  # type: ignore[arg-type]
    return Series(metric=metric, samples=[float(value)])


def facts(*, batch: int = 1, peak_memory: float = 412.0) -> list[Series]:
    """What a bench stores beside the times: start-up, memory (MiB), parameters, work."""
    return [
        single("time/import", "s", 1.62, title="import"),
        single("time/load", "s", 0.31, title="load"),
        single("time/first_call", "s", 0.088, title="first call"),
        single("time/warm_up", "s", 0.42, title="warm-up"),
        single("memory/host/peak", "B", peak_memory * 2**20, title="peak host memory"),
        single("params/all", "1", 11_689_512, title="parameters", better="none"),
        single("macs", "MAC", 1.814e9 * batch, title="MACs", better="none"),
        single("flops", "FLOP", 3.628e9 * batch, title="FLOPs", better="none"),
    ]


def case(
    *series: Series,
    target: str = TARGET,
    axes: dict[str, Axis] | None = None,
    checks: Sequence[Check] = (),
    details: dict[str, Any] | None = None,
) -> Case:
    """A measured case; axes default to batch 1, float32 on the CPU."""
    held: dict[str, Axis] = {"batch": 1, "dtype": "float32", "device": "cpu", **(axes or {})}
    return Case(
        key=case_key(target, held),
        target=target,
        axes=held,
        series=list(series),
        checks=list(checks) or [Check(name="settled", outcome="ok", sentence="settled after 3 calls")],
        details=details or {},
    )


def failing(failure: Failure, *, target: str = TARGET, axes: dict[str, Axis] | None = None) -> Case:
    """A case that ended in an error."""
    return structs.replace(case(target=target, axes=axes), status="failed", failure=failure, checks=[])


def run(*cases: Case, **changes: Any) -> Run:
    """A finished bench of these cases; `changes` are fields of `Run`."""
    made = Run(
        id="20260801-142501-337-9f3a1c",
        started="2026-08-01T14:25:01Z",
        seconds=24.6,
        laptime="0.1.0",
        command=["laptime", "bench", TARGET],
        status="complete",
        subjects=[Subject(target=name, source="torchvision 0.24.0") for name in _targets(cases)],
        environment=environment(),
        plan={"precision": Setting(value=0.01, origin="preset"), "budget": Setting(value=30.0)},
        cases=list(cases),
    )
    return structs.replace(made, **changes)


def _targets(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(each.target for each in cases))


def trusted() -> Run:
    """One case, quiet machine, FLOPs and peak known."""
    details = {
        "physical_cores": 2,
        "peak": {"flops": 180e9, "source": "measured GEMM, float32"},
        "count": {
            "by_operator": {"convolution": 3.626e9, "addmm": 1.02e6},
            "not_counted": ["relu_", "max_pool2d"],
        },
    }
    saturated = timings(0.0258, n=40, spread=0.004, seed=2, regime="saturated", start=8.0)
    return run(
        case(timings(0.0263, n=160, spread=0.006, warm_up=3), saturated, *facts(), details=details),
        seconds=14.2,
    )


def noisy() -> Run:
    """One case with a fifth of its samples disturbed."""
    checks = [
        Check(
            name="disturbed",
            outcome="warn",
            sentence="18 % of the samples waited for a CPU that something else was using",
            next="stop other programs, or: laptime bench torchvision:resnet18 --budget 2m",
        ),
        Check(name="settled", outcome="ok", sentence="settled after 3 calls"),
        Check(name="clock", outcome="note", sentence="the CPU's clock cannot be read on this machine"),
    ]
    return run(case(timings(0.0263, n=90, spread=0.05, warm_up=3, disturbed=0.2), *facts(), checks=checks))


def compared() -> Run:
    """Two targets at two batch sizes, compared at each."""
    cases = [
        case(
            timings(level * batch**0.8, seed=seed, spread=0.006),
            *facts(batch=batch, peak_memory=300.0 + 40 * batch),
            target=target,
            axes={"batch": batch},
        )
        for seed, (target, batch, level) in enumerate(
            [
                (TARGET, 1, 0.0263),
                (TARGET, 8, 0.0263),
                ("timm:resnet18", 1, 0.0211),
                ("timm:resnet18", 8, 0.0262),
            ],
            start=1,
        )
    ]
    made = [
        against(cases[0], cases[2], word="faster", speedup=1.249, ci95=(1.237, 1.260)),
        against(cases[1], cases[3], word="unclear", speedup=1.003, ci95=(0.994, 1.013)),
    ]
    return run(*cases, comparisons=made)


def against(
    baseline: Case, candidate: Case, *, word: Word, speedup: float, ci95: tuple[float, float]
) -> Comparison:
    """A comparison with the sentence that belongs to it."""
    return Comparison(
        baseline=baseline.key,
        candidate=candidate.key,
        metric="latency/isolated",
        speedup=speedup,
        ci95=ci95,
        word=word,
        margin=0.01,
        pairs=12,
        processes=2,
        sentence=sentence(word, speedup, ci95, 0.01),
    )


def invalid() -> Run:
    """Faster than the hardware can be."""
    check = Check(
        name="peak",
        outcome="fail",
        sentence="the calls reach 41 times the measured peak of this machine: something was not waited for",
        next="laptime bench model.py:build --regime isolated",
    )
    return run(case(timings(0.0002), *facts(), target="model.py:build", checks=[check]))


def failed() -> Run:
    """The only case ran out of memory."""
    failure = Failure(
        kind="out_of_memory",
        what="batch 4096 does not fit",
        why="it asked for 9.2 GiB; this container may use 8.0 GiB",
        next="laptime bench torchvision:resnet18 --batch auto",
    )
    return run(failing(failure, axes={"batch": 4096}), status="failed", seconds=4.1)


def interrupted() -> Run:
    """Ctrl-C in the second case; a handful of samples are kept."""
    second = case(timings(0.19, n=4, processes=1), axes={"batch": 8})
    failure = Failure(kind="interrupted", what="stopped by Ctrl-C", next="laptime bench torchvision:resnet18")
    second = structs.replace(second, status="interrupted", failure=failure)
    return run(case(timings(0.0263), *facts()), second, status="interrupted", seconds=9.0)


def batches() -> Run:
    """Throughput against batch, with a knee, the largest batch, and one batch that did not fit."""
    levels = {1: 0.0263, 2: 0.041, 4: 0.069, 8: 0.127, 16: 0.250, 32: 0.497}
    cases = [
        case(
            timings(level, n=80, seed=batch),
            *facts(batch=batch, peak_memory=300.0 + 22 * batch),
            axes={"batch": batch},
        )
        for batch, level in levels.items()
    ]
    knee = Finding(
        kind="batch/knee",
        severity="advice",
        sentence="batch 8 is the smallest within 3 % of the best throughput",
        evidence={"knee": 8},
        cases=[cases[3].key],
    )
    largest = Finding(
        kind="batch/largest", sentence="batch 32 is the largest that fits", evidence={"largest": 32}
    )
    return run(*cases, findings=[knee, largest])


def scenarios() -> dict[str, Callable[[], Run]]:
    """A maker of each run above by name."""
    made = (trusted, noisy, compared, invalid, failed, interrupted, batches)
    return {maker.__name__: maker for maker in made}
