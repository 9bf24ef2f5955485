"""Profiles made by hand, for tests of reports: every field filled, sums that agree."""

from __future__ import annotations

import math
import random

from msgspec import structs

from laptime.records.finding import Finding
from laptime.records.overview import (
    Breakdown,
    DeviceUse,
    Idle,
    IdleCause,
    Overview,
    Phase,
    Step,
    Synchronisation,
    Totals,
)
from laptime.records.profile import Accelerator, Primitive, Profile, Reconciled, TraceFile, Verdict
from laptime.records.ranks import Straggler
from laptime.records.run import Run, Subject
from laptime.testing import runs
from laptime.testing._profile_findings import findings
from laptime.testing._profile_ranks import against, collectives, ranks
from laptime.testing._profile_tables import (
    copies,
    cpu_memory,
    cpu_operators,
    kernels,
    kernels_by_launch,
    launches,
    memory,
    modules,
    operators,
)
from laptime.testing._profile_timeline import timeline

MS = 1_000_000
_PARTS = Breakdown.__struct_fields__
_GPU = dict(zip(_PARTS, (94, 3, 0.2, 9, 6.1, 52, 14.5, 4.6), strict=True))
_CPU = dict(zip(_PARTS, (0, 0, 0, 0, 0, 311, 688, 4.2), strict=True))


def example() -> Run:
    """Four ranks train ResNet-50 in float32: a slow loader, one rank late, the loss read in each step."""
    steps = _steps(_GPU, numbers=range(5, 11))
    profile = Profile(
        files=_files(),
        rank=0,
        world=4,
        device_type="cuda",
        accelerators=[
            Accelerator(id=r, name="NVIDIA A100-SXM4-80GB", memory=85_197_979_648, capability="8.0", sms=108)
            for r in range(4)
        ],
        span_ns=steps[-1].end_ns + 40 * MS,
        window_ns=steps[-1].end_ns - steps[0].start_ns,
        verdict=Verdict(
            bound="input",
            sentence="28 % of the step waits for the DataLoader, and the device is idle meanwhile",
            share=0.28,
        ),
        steps=steps,
        overview=_overview(steps),
        operators=operators(),
        operators_by_shape=operators(by_shape=True),
        kernels=kernels(),
        kernels_by_launch=kernels_by_launch(),
        modules=modules(),
        memory=memory(steps[-1].end_ns),
        launches=launches(),
        copies=copies(),
        ranks=ranks(_mean(steps)),
        collectives=collectives(steps),
        stragglers=[
            Straggler(
                rank=3,
                caused_ns=96 * MS,
                share=0.81,
                last_arrivals=25,
                collectives=30,
                why="it waited 17.2 ms longer per step for its loader",
            )
        ],
        timeline=timeline(),
        against=against(),
        reconciled=_reconciled(),
        facts={"record_shapes": True, "with_stack": True, "cuda_runtime_version": 12040, "torch": "2.9.0"},
    )
    return _run(profile, findings(), "train.py")


def _files() -> list[TraceFile]:
    """Three whole ones and one cut off."""
    whole = [
        TraceFile(name=f"rank{r}.pt.trace.json.gz", bytes=48_100_200 + r, events=112_408, format="D", rank=r)
        for r in range(3)
    ]
    cut = TraceFile(
        name="rank3.pt.trace.json.gz",
        bytes=31_004_771,
        events=70_115,
        format="D",
        rank=3,
        truncated=True,
        warnings=["the file ends in the middle of an event; what came before was used"],
    )
    return [*whole, cut]


def _reconciled() -> Reconciled:
    """Profiled steps that are a little slower than untraced ones."""
    return Reconciled(
        untraced_ns=171 * MS,
        untraced_steps=40,
        untraced_ci95_ns=(168 * MS, 175 * MS),
        traced_ns=183 * MS,
        slowdown=183 / 171,
        parts_ns={
            "data": 50 * MS,
            "forward": 31 * MS,
            "backward": 70 * MS,
            "optimizer": 14 * MS,
            "other": 6 * MS,
        },
        loader_wait_ns=50 * MS,
        threads_busy=1.4,
        note="the optimizer is slowed down most, by 31 %: it makes many small calls",
    )


def cpu_only() -> Run:
    """ResNet-18 on two CPUs, deliberately naive: no accelerator, no ranks; oneDNN primitives, no kernels."""
    steps = _steps(_CPU, numbers=range(3, 7))
    total = _mean(steps)
    profile = Profile(
        files=[TraceFile(name="train.json", bytes=9_120_400, events=24_011, format="D")],
        span_ns=steps[-1].end_ns,
        window_ns=steps[-1].end_ns - steps[0].start_ns,
        verdict=Verdict(
            bound="cpu",
            sentence="69 % of the step is operators on the CPU; convolutions are most of it",
            share=0.69,
        ),
        steps=steps,
        overview=_cpu_overview(total, len(steps)),
        operators=cpu_operators(),
        memory=cpu_memory(steps[-1].end_ns),
        primitives=_primitives(),
        reconciled=_cpu_reconciled(),
        facts={"record_shapes": True},
    )
    finding = Finding(
        kind="input/bound",
        severity="problem",
        sentence="31 % of each step waits for a DataLoader without workers",
        evidence={"workers": 0, "wait_ns_per_step": 311 * MS},
        next="laptime tune train.py --only loader_workers",
        gain=0.309,
        change="DataLoader(..., num_workers=2, persistent_workers=True)",
        optimization="loader_workers",
        stack=["train.py(61): main"],
        rows=["operators/enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"],
    )
    return _run(profile, [finding], "train.py")


def _cpu_overview(total: Breakdown, steps: int) -> Overview:
    """Phases and threads of a loop without accelerator."""
    return Overview(
        steps=steps,
        step_ns=total.total_ns,
        step_median_ns=total.total_ns - MS,
        breakdown=total,
        phases=[
            Phase(name="data", host_ns=311 * MS),
            Phase(name="forward", host_ns=214 * MS),
            Phase(name="backward", host_ns=452 * MS),
            Phase(name="optimizer", host_ns=22 * MS),
            Phase(name="other", host_ns=4 * MS),
        ],
        cpu_threads=2,
        threads_busy=1.06,
    )


def _cpu_reconciled() -> Reconciled:
    """Hardly slowed down."""
    return Reconciled(
        untraced_ns=991 * MS,
        untraced_steps=6,
        traced_ns=1_003 * MS,
        slowdown=1.012,
        parts_ns={
            "data": 309 * MS,
            "forward": 209 * MS,
            "backward": 449 * MS,
            "optimizer": 20 * MS,
            "other": 4 * MS,
        },
        loader_wait_ns=309 * MS,
        threads_busy=1.9,
    )


def _primitives() -> list[Primitive]:
    """What oneDNN did in one step."""
    return [
        Primitive(kind=kind, implementation=how, shapes=what, calls=calls, total_ns=int(ms * MS))
        for kind, how, what, calls, ms in (
            ("convolution", "brgconv:avx512_core", "mb32_ic64oc64_ih56oh56kh3sh1dh0ph1", 24, 301.5),
            ("convolution", "jit:avx512_core", "mb32_ic3oc64_ih224oh112kh7sh2dh0ph3", 3, 88.2),
            ("reorder", "jit:uni", "32x64x56x56", 61, 41.9),
            ("batch_normalization", "tbb_jit:avx512_core", "mb32ic64ih56", 40, 22.4),
        )
    ]


def _run(profile: Profile, findings: list[Finding], target: str) -> Run:
    return structs.replace(
        runs.run(),
        id="20261103-091844-114-77ab01",
        verb="profile",
        started="2026-11-03T09:18:44Z",
        seconds=31.8,
        command=["laptime", "profile", target],
        subjects=[Subject(target=target, source=target)],
        plan={},
        findings=findings,
        profile=profile,
    )


def _steps(parts: dict[str, float], numbers: range) -> list[Step]:
    dice = random.Random(7)  # noqa: S311 (not for secrets)
    found, now = [], 3 * MS
    for number in numbers:
        own = Breakdown(**{name: int(ms * MS * dice.uniform(0.94, 1.07)) for name, ms in parts.items()})
        end = now + own.total_ns
        busy = own.kernel_ns + own.memcpy_ns + own.memset_ns + own.communication_ns
        found.append(
            Step(
                number=number,
                start_ns=now,
                end_ns=end,
                host_start_ns=now,
                host_end_ns=end - 2 * MS,
                breakdown=own,
                device_busy_ns=busy,
                data_wait_ns=own.dataloader_ns + 1_200,
            )
        )
        now = end
    return found


def _mean(steps: list[Step]) -> Breakdown:
    return Breakdown(
        **{name: sum(getattr(step.breakdown, name) for step in steps) // len(steps) for name in _PARTS}
    )


def _overview(steps: list[Step]) -> Overview:
    mean, window = _mean(steps), steps[-1].end_ns - steps[0].start_ns
    every = {name: sum(getattr(step.breakdown, name) for step in steps) for name in _PARTS}
    idle = window - sum(step.device_busy_ns for step in steps)
    curve = [
        0.0 if (i % 20) < 6 else min(1.0, 0.86 + 0.13 * math.sin(i)) if (i % 20) < 16 else 0.35
        for i in range(120)
    ]
    device = DeviceUse(
        device=0,
        utilization=(every["kernel_ns"] + every["communication_ns"]) / window,
        busy=1 - idle / window,
        sm_efficiency=0.473,
        occupancy=0.384,
        tensor_core_share=0.118,
        tensor_core_eligible=0.871,
        compute_ns=every["kernel_ns"],
        communication_ns=every["communication_ns"] * 2,
        overlapped_communication_ns=every["communication_ns"],
        exposed_communication_ns=every["communication_ns"],
        memcpy_ns=every["memcpy_ns"],
        memset_ns=every["memset_ns"],
        exposed_copy_ns=every["memcpy_ns"],
        idle_ns=idle,
        busy_curve=curve,
    )
    return Overview(
        steps=len(steps),
        step_ns=mean.total_ns,
        step_median_ns=mean.total_ns + 300_000,
        breakdown=mean,
        devices=[device],
        totals=Totals(kernels=5_412, communication_kernels=30, kernel_names=41, device_idle_ns=idle),
        idle=Idle(total_ns=idle, window_ns=window, causes=_causes(idle)),
        synchronisations=_synchronisations(),
        plugin_communication_ns=210_000,
        phases=[
            Phase(name="data", host_ns=52 * MS, device_ns=3 * MS),
            Phase(name="forward", host_ns=26 * MS, device_ns=31 * MS),
            Phase(name="loss", host_ns=1 * MS, device_ns=120_000),
            Phase(name="backward", host_ns=37 * MS, device_ns=66 * MS),
            Phase(name="optimizer", host_ns=14 * MS, device_ns=6 * MS),
            Phase(name="other", host_ns=mean.total_ns - 130 * MS, device_ns=100_000),
        ],
        cpu_threads=2,
        threads_busy=1.21,
    )


def _causes(idle: int) -> list[IdleCause]:
    """The causes of the device's idle time; the last takes the remainder."""
    made = [
        ("data", 0.74, 6, 53 * MS, [("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0.74)]),
        ("host", 0.15, 1_840, 800_000, [("aten::add_", 0.08), ("Optimizer.step#SGD.step", 0.07)]),
        ("synchronisation", 0.07, 12, 4 * MS, [("aten::item", 0.06), ("aten::nonzero", 0.01)]),
        ("copy", 0.02, 12, 1 * MS, [("aten::to", 0.02)]),
        ("communication", 0.01, 30, 600_000, [("nccl:all_reduce", 0.01)]),
    ]
    found = [
        IdleCause(
            cause=cause,  # type: ignore[arg-type]
            total_ns=int(idle * share),
            share_of_idle=share,
            gaps=gaps,
            longest_ns=longest,
            operators=[(name, int(idle * part)) for name, part in operators],
            stack=["train.py(74): train", "train.py(112): main"]
            if cause in ("data", "synchronisation")
            else [],
        )
        for cause, share, gaps, longest, operators in made
    ]
    rest = idle - sum(cause.total_ns for cause in found)
    return [
        *found,
        IdleCause(cause="other", total_ns=rest, share_of_idle=rest / idle, gaps=44, longest_ns=90_000),
    ]


def _synchronisations() -> list[Synchronisation]:
    stack = ["train.py(88): train", "train.py(112): main"]
    return [
        Synchronisation(
            call="cudaStreamSynchronize", operator="aten::item", calls=6, wait_ns=214 * MS, stack=stack
        ),
        Synchronisation(call="cudaMemcpyAsync (pageable)", operator="aten::copy_", calls=12, wait_ns=16 * MS),
        Synchronisation(call="cudaDeviceSynchronize", calls=1, wait_ns=2 * MS),
    ]
