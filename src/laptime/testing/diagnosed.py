"""Profiles made by hand, for tests of rules: one for each of ours that makes it speak.

`gpu` and `cpu` are quiet: every rule is silent on them. Times are in milliseconds per step and sum up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from laptime.records.overview import (
    Breakdown,
    DeviceUse,
    Idle,
    IdleCause,
    Overview,
    Step,
    Synchronisation,
)
from laptime.records.profile import Accelerator, Primitive, Profile, Reconciled, TraceFile
from laptime.records.ranks import RankRow, Straggler
from laptime.records.tables import (
    AnnotationRow,
    CopyRow,
    KernelRow,
    Launches,
    LiveAtPeak,
    Memory,
    OperatorRow,
    StackRow,
)

MS = 1_000_000
STEP = 100
STEPS = 4
WHERE = ["train.py(12): loop", "train.py(40): main"]
CAUSES = ("data", "host", "synchronisation", "copy", "communication", "other")


def gpu(
    steps: int = STEPS,
    *,
    communication: float = 0.0,
    copies: float = 0.0,
    tensor_cores: float = 0.5,
    **idle: float,
) -> Profile:
    """Steps of 100 ms on an A100: `communication` and `copies` alone, idle by cause; the rest computes."""
    compute = STEP - communication - copies - sum(idle.values())
    parts = Breakdown(
        kernel_ns=_ns(compute),
        memcpy_ns=_ns(copies),
        communication_ns=_ns(communication),
        cpu_ns=_ns(sum(idle.values())),
    )
    waits = _idle(steps, idle)
    use = DeviceUse(
        device=0,
        utilization=(compute + communication) / STEP,
        busy=1 - sum(idle.values()) / STEP,
        sm_efficiency=0.9 * compute / STEP,
        tensor_core_share=tensor_cores,
        tensor_core_eligible=0.7,
        compute_ns=_ns(compute) * steps,
        communication_ns=_ns(communication) * steps,
        exposed_communication_ns=_ns(communication) * steps,
        memcpy_ns=_ns(copies) * steps,
        exposed_copy_ns=_ns(copies) * steps,
        idle_ns=waits.total_ns,
    )
    return Profile(
        files=[TraceFile(name="trace.json", bytes=1_000, events=100, format="D")],
        device_type="cuda",
        accelerators=[Accelerator(id=0, name="NVIDIA A100", memory=80 * 2**30, capability="8.0", sms=108)],
        span_ns=_ns(STEP) * steps,
        window_ns=_ns(STEP) * steps,
        steps=_steps(steps, parts, device_busy_ns=_ns(STEP) - _ns(sum(idle.values()))),
        overview=Overview(
            steps=steps,
            step_ns=_ns(STEP),
            step_median_ns=_ns(STEP),
            breakdown=parts,
            devices=[use],
            idle=waits,
        ),
        operators=[operator("aten::add", device=4), operator("aten::item")],
        kernels=[kernel("add_kernel", ms=4)],
    )


def _idle(steps: int, idle: dict[str, float]) -> Idle:
    total = _ns(sum(idle.values())) * steps
    causes = [
        IdleCause(
            cause=cause,  # type: ignore[arg-type]
            total_ns=_ns(idle[cause]) * steps,
            share_of_idle=_ns(idle[cause]) * steps / total,
            gaps=steps,
            operators=[
                ("aten::item" if cause == "synchronisation" else "aten::add", _ns(idle[cause]) * steps)
            ],
            stack=WHERE,
        )
        for cause in CAUSES
        if _ns(idle.get(cause, 0.0))
    ]
    return Idle(total_ns=total, window_ns=_ns(STEP) * steps, causes=causes)


def cpu(steps: int = STEPS, *, data: float = 0.0, other: float = 5.0) -> Profile:
    """Steps of 100 ms without accelerator: waiting for data, Python alone, and operators the rest."""
    parts = Breakdown(dataloader_ns=_ns(data), other_ns=_ns(other), cpu_ns=_ns(STEP) - _ns(data) - _ns(other))
    return Profile(
        files=[TraceFile(name="trace.json", bytes=1_000, events=100, format="D")],
        span_ns=_ns(STEP) * steps,
        window_ns=_ns(STEP) * steps,
        steps=_steps(steps, parts, data_wait_ns=_ns(data)),
        overview=Overview(
            steps=steps, step_ns=_ns(STEP), step_median_ns=_ns(STEP), breakdown=parts, cpu_threads=2
        ),
        operators=[operator("aten::mkldnn_convolution", host=60, dtypes=['["float", "float"]'])],
    )


def operator(
    name: str, *, host: float = 0.0, device: float = 0.0, calls: int = 1, shapes: str = "", **more: Any
) -> OperatorRow:
    """A row: times in ms and calls are per step."""
    return OperatorRow(
        id=f"{name} {shapes}".strip(),
        name=name,
        shapes=shapes,
        calls=calls * STEPS,
        host_total_ns=_ns(host) * STEPS,
        host_self_ns=_ns(host) * STEPS,
        device_total_ns=_ns(device) * STEPS,
        device_self_ns=_ns(device) * STEPS,
        stacks=[StackRow(frames=WHERE, calls=1, host_self_ns=0, device_self_ns=0)],
        **more,
    )


def kernel(name: str, *, ms: float, calls: int = 1) -> KernelRow:
    """A row: time in ms and calls are per step."""
    mean = int(_ns(ms) / calls)
    return KernelRow(
        id=name,
        name=name,
        calls=calls * STEPS,
        total_ns=_ns(ms) * STEPS,
        mean_ns=mean,
        min_ns=mean,
        max_ns=mean,
    )


def mark(
    name: str, *, host: float = 0.0, device: float = 0.0, kernels: int = 0, calls: int = 1
) -> AnnotationRow:
    """An annotation: times in ms, kernels and calls are per step; as many operators as kernels."""
    return AnnotationRow(
        name=name,
        calls=calls * STEPS,
        host_ns=_ns(host) * STEPS,
        longest_ns=_ns(host),
        operators=kernels * STEPS,
        kernels=kernels * STEPS,
        device_ns=_ns(device) * STEPS,
    )


def firing() -> dict[str, Profile]:
    """By rule: a profile that makes it speak."""
    return {name: make() for name, make in _FIRING.items()}


def loaded(profile: Profile, ms: float) -> Profile:
    """The same with that much of its idle time inside a DataLoader's `__next__`."""
    parts = profile.overview.breakdown
    parts = structs.replace(parts, dataloader_ns=_ns(ms), cpu_ns=parts.cpu_ns - _ns(ms))
    return structs.replace(profile, overview=structs.replace(profile.overview, breakdown=parts))


def ranks(last: int = 3, *, waiting: float = 30.0) -> Profile:
    """Four ranks; all but the last wait that many ms per step for it."""
    parts = Breakdown(kernel_ns=_ns(STEP - waiting), communication_ns=_ns(waiting))
    rows = [
        RankRow(
            rank=rank,
            file=f"rank{rank}.json",
            steps=STEPS,
            step_ns=_ns(STEP),
            breakdown=parts,
            compute_ns=_ns(STEP - waiting) * STEPS,
            exposed_communication_ns=_ns(waiting) * STEPS,
            waiting_ns=0 if rank == last else _ns(waiting) * STEPS,
            transfer_ns=_ns(1) * STEPS,
        )
        for rank in range(4)
    ]
    late = Straggler(
        rank=last, caused_ns=_ns(waiting) * 3 * STEPS, share=1.0, last_arrivals=STEPS, collectives=STEPS
    )
    return structs.replace(gpu(communication=waiting), rank=0, world=4, ranks=rows, stragglers=[late])


def _data_parallel() -> Profile:
    quiet = gpu(host=10)
    two = [*quiet.overview.devices, structs.replace(quiet.overview.devices[0], device=1)]
    return structs.replace(
        quiet,
        overview=structs.replace(quiet.overview, devices=two),
        annotations=[mark("DataParallel.forward", host=30)],
    )


def _synchronisation() -> Profile:
    found = gpu(synchronisation=5)
    calls = [Synchronisation(call="cudaStreamSynchronize", operator="aten::item", calls=STEPS, wait_ns=MS)]
    return structs.replace(found, overview=structs.replace(found.overview, synchronisations=calls))


def _uneven() -> Profile:
    found = gpu()
    parts = structs.replace(found.steps[0].breakdown, other_ns=_ns(80))
    last = found.steps[-1]
    return structs.replace(
        found,
        steps=[*found.steps[:-1], structs.replace(last, end_ns=last.end_ns + _ns(80), breakdown=parts)],
    )


def _copying(memory: str) -> Profile:
    row = CopyRow(
        id=f"HtoD {memory}",
        direction="HtoD",
        memory=memory,
        calls=STEPS,
        total_ns=_ns(8) * STEPS,
        exposed_ns=_ns(8) * STEPS,
        bytes=10**9,
        bandwidth=6e9,
        operators=[("aten::add", 1)],
        stack=WHERE,
    )
    return structs.replace(gpu(copies=8), copies=[row])


def _near_limit() -> Profile:
    live = [LiveAtPeak(operator="aten::conv2d", bytes=2**30, blocks=3)]
    row = Memory(device="cuda:0", peak=76 * 2**30, capacity=80 * 2**30, live=live)
    return structs.replace(gpu(), memory=[row])


def _crowded(busy: float) -> Profile:
    known = Reconciled(
        untraced_ns=_ns(95), untraced_steps=20, traced_ns=_ns(STEP), slowdown=100 / 95, threads_busy=busy
    )
    return structs.replace(cpu(), reconciled=known, facts={"usable_cpus": 4, "torch.num_threads": 1})


def _slowed() -> Profile:
    known = Reconciled(untraced_ns=_ns(50), untraced_steps=20, traced_ns=_ns(STEP), slowdown=2.0)
    return structs.replace(gpu(), reconciled=known)


def _with(profile: Profile, **changes: Any) -> Profile:
    return structs.replace(profile, **changes)


def _ns(ms: float) -> int:
    return round(ms * MS)


def _steps(number: int, parts: Breakdown, **more: Any) -> list[Step]:
    return [
        Step(
            number=at + 1,
            start_ns=_ns(STEP) * at,
            end_ns=_ns(STEP) * (at + 1),
            host_start_ns=_ns(STEP) * at,
            host_end_ns=_ns(STEP) * (at + 1),
            breakdown=parts,
            **more,
        )
        for at in range(number)
    ]


FLOAT, HALF = ['["float", "float"]'], ['["c10::Half", "c10::Half"]']
SCORES = "[[8, 12, 512, 512], [], []]"
ODD = "[[1001], [64, 768], [768, 30522]]"
_FIRING: dict[str, Callable[[], Profile]] = {
    "allocator": lambda: _with(gpu(), launches=Launches(launches=400, calls=[("cudaMalloc", 8, 8 * MS)])),
    "attention": lambda: _with(
        gpu(),
        operators=[operator("aten::bmm", device=20)],
        operators_by_shape=[operator("aten::_softmax", device=10, shapes=SCORES)],
    ),
    "communication": lambda: gpu(communication=15),
    "cpu_precision": lambda: _with(cpu(), facts={"isa": "avx2 avx512f amx_bf16"}),
    "crowded_cpu": lambda: _crowded(0.5),
    "data_parallel": _data_parallel,
    "ddp_gradient_copies": lambda: _with(
        gpu(host=10),
        annotations=[mark("torch.distributed.ddp.reducer::copy_bucket_to_grad", host=4, device=1, calls=160)],
    ),
    "ddp_without_nccl": lambda: _with(
        gpu(communication=20),
        annotations=[mark("DistributedDataParallel.forward", host=30), mark("gloo:all_reduce", host=20)],
    ),
    "exposed_copies": lambda: _copying("pinned"),
    "few_steps": lambda: gpu(steps=1),
    "fp32_matmul": lambda: _with(gpu(), operators=[operator("aten::mm", device=30, dtypes=FLOAT)]),
    "gradient_zeroing": lambda: _with(
        gpu(host=5), annotations=[mark("Optimizer.zero_grad#SGD.zero_grad", host=4, device=1, kernels=160)]
    ),
    "hidden_input": lambda: gpu(data=30),
    "host_bound": lambda: gpu(host=30),
    "host_only": lambda: _with(cpu(), annotations=[mark("nccl:all_reduce", host=5)]),
    "idle_threads": lambda: _crowded(1.0),
    "incomplete": lambda: _with(gpu(), launches=Launches(launches=400, lost=100)),
    "layout_conversion": lambda: _with(gpu(), kernels=[kernel("cudnn::ops::nchwToNhwcKernel<float>", ms=5)]),
    "loop_indexing": lambda: _with(gpu(host=20), operators=[operator("aten::select", host=15, calls=3_000)]),
    "low_utilization": lambda: gpu(host=60),
    "memory_near_limit": _near_limit,
    "num_workers": lambda: loaded(gpu(data=30), 30),
    "onednn_reorders": lambda: _with(
        cpu(), primitives=[Primitive(kind="reorder", implementation="jit:uni", calls=60, total_ns=9 * MS)]
    ),
    "pageable_copies": lambda: _copying("pageable"),
    "profiler_overhead": _slowed,
    "recompiles": lambda: _with(
        gpu(host=20),
        annotations=[
            mark("_compile.compile_inner (dynamo_timed)", host=15),
            mark("Torch-Compiled Region: 0/5", host=3),
        ],
    ),
    "slow_convolution": lambda: _with(cpu(), operators=[operator("aten::_slow_conv2d_forward", host=40)]),
    "straggler": ranks,
    "synchronisation": _synchronisation,
    "tensor_cores_unused": lambda: gpu(tensor_cores=0.0),
    "tf_data": lambda: _with(
        loaded(gpu(data=30), 30),
        facts={"framework": "tensorflow"},
        annotations=[mark("Iterator::Root::BatchV2", host=30)],
    ),
    "tiny_kernels": lambda: _with(gpu(), launches=Launches(launches=8_000, tiny=7_000, tiny_ns=40 * MS)),
    "unaligned_matmul": lambda: _with(
        gpu(), operators_by_shape=[operator("aten::addmm", device=12, shapes=ODD, dtypes=HALF)]
    ),
    "uneven_steps": _uneven,
    "unfused_optimizer": lambda: _with(
        gpu(host=15), annotations=[mark("Optimizer.step#Adam.step", host=12, device=5, kernels=800)]
    ),
}
