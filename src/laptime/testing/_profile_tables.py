"""Tables of the made-up profiles: operators, kernels, modules, memory, launches, copies."""

from __future__ import annotations

import math

from laptime.records.tables import (
    CopyRow,
    KernelRow,
    Launches,
    LaunchRow,
    LiveAtPeak,
    Memory,
    MemoryPoint,
    MemoryRow,
    ModuleRow,
    OperatorRow,
    StackRow,
)
from laptime.testing._profile_findings import ADD, LOADER, TRAIN, WGRAD

MS, US, MIB = 1_000_000, 1_000, 2**20

# name, calls, host total, host self, device total, device self (ms), tensor-core share, eligible
_OPERATORS: list[tuple[str, int, float, float, float, float, float | None, bool]] = [
    (LOADER, 6, 312.0, 312.0, 0, 0, None, False),
    ("aten::conv2d", 318, 41.2, 2.1, 143.0, 0, 0.11, True),
    ("aten::cudnn_convolution", 318, 33.7, 14.9, 143.0, 143.0, 0.11, True),
    ("aten::convolution_backward", 318, 61.0, 30.4, 262.0, 262.0, 0.14, True),
    ("aten::cudnn_batch_norm", 318, 18.2, 9.0, 31.0, 31.0, None, False),
    ("aten::cudnn_batch_norm_backward", 318, 21.4, 10.8, 44.2, 44.2, None, False),
    ("aten::clamp_min_", 294, 7.2, 4.0, 17.9, 17.9, None, False),
    ("aten::threshold_backward", 294, 9.9, 5.4, 24.1, 24.1, None, False),
    ("aten::add_", 1_932, 52.1, 30.2, 11.8, 11.8, None, False),
    ("aten::mul_", 966, 24.8, 15.0, 5.9, 5.9, None, False),
    ("aten::item", 6, 219.0, 0.1, 0.1, 0, None, False),
    ("aten::_local_scalar_dense", 6, 218.9, 4.9, 0.1, 0.1, None, False),
    ("aten::copy_", 12, 17.1, 1.0, 15.9, 15.9, None, False),
    ("aten::to", 24, 17.6, 0.3, 15.9, 0, None, False),
    ("aten::addmm", 6, 1.1, 0.5, 0.9, 0.9, 0.0, True),
    ("aten::nonzero", 6, 2.2, 0.8, 0.3, 0.3, None, False),
    ("nccl:all_reduce", 30, 1.3, 1.2, 54.0, 54.0, None, False),
]

_BN = "cudnnTensorStruct, float const*"
_KERNELS: list[tuple[str, str, int, float, bool, float, float]] = [
    (WGRAD, "aten::convolution_backward", 318, 262.0, True, 6.1, 0.19),
    ("ampere_sgemm_128x64_nn", "aten::cudnn_convolution", 222, 143.0, False, 9.4, 0.42),
    (
        f"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, {_BN})",
        "aten::cudnn_batch_norm_backward",
        318,
        44.2,
        False,
        3.0,
        0.5,
    ),
    (
        f"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>({_BN})",
        "aten::cudnn_batch_norm",
        318,
        31.0,
        False,
        2.8,
        0.5,
    ),
    (
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "nccl:all_reduce",
        30,
        54.0,
        False,
        0.2,
        0.1,
    ),
    (ADD, "aten::add_", 1_932, 11.8, False, 0.6, 0.33),
    (
        "void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>"
        "(float*, float const*, int, int, int)",
        "aten::_log_softmax",
        6,
        0.1,
        False,
        0.3,
        0.25,
    ),
]


def operators(*, by_shape: bool = False) -> list[OperatorRow]:
    """Named ones first, then 60 small ones, so that a table has something to leave out."""
    made = []
    for name, calls, total, own, device, device_self, cores, eligible in _OPERATORS:
        parts = [("[32, 64, 56, 56]", 0.6), ("[32, 256, 28, 28]", 0.4)] if by_shape else [("", 1.0)]
        for shapes, share in parts:
            shown = f"[{shapes}, [64, 64, 3, 3], [], [1, 1]]" if shapes else ""
            made.append(
                OperatorRow(
                    id=f"{name} {shown}".strip(),
                    name=name,
                    shapes=shown,
                    calls=round(calls * share),
                    host_total_ns=int(total * MS * share),
                    host_self_ns=int(own * MS * share),
                    device_total_ns=int(device * MS * share),
                    device_self_ns=int(device_self * MS * share),
                    tensor_core_eligible=eligible,
                    tensor_core_self=cores if device_self else None,
                    tensor_core_total=cores,
                    kernels=round(calls * share) if device_self else 0,
                    dtypes=['["float", "float", "", ""]'] if eligible else [],
                    stacks=_stacks(name, calls, own, device_self),
                )
            )
    small = [
        OperatorRow(
            id=f"aten::small_{index:02d}",
            name=f"aten::small_{index:02d}",
            calls=6 + index,
            host_total_ns=(90 - index) * 3 * US,
            host_self_ns=(90 - index) * 2 * US,
        )
        for index in range(60)
    ]
    return sorted(made, key=lambda row: (-row.device_self_ns, -row.host_self_ns)) + small


def _stacks(name: str, calls: int, own: float, device: float) -> list[StackRow]:
    if name not in ("aten::item", "aten::add_", "aten::conv2d", LOADER):
        return []
    return [
        StackRow(
            frames=["torch/nn/modules/conv.py(549): forward", *TRAIN] if name == "aten::conv2d" else TRAIN,
            calls=calls,
            host_self_ns=int(own * MS),
            device_self_ns=int(device * MS),
        )
    ]


def cpu_operators() -> list[OperatorRow]:
    """Without an accelerator: host times only."""
    rows = (
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 4, 1_244.0, 902.0),
        ("aten::mkldnn_convolution", 80, 820.0, 812.0),
        ("aten::convolution_backward", 80, 1_105.0, 1_090.0),
        ("aten::native_batch_norm", 80, 190.0, 181.0),
        ("aten::max_pool2d_with_indices", 4, 44.0, 44.0),
        ("aten::add_", 248, 61.0, 60.0),
    )
    return [
        OperatorRow(id=name, name=name, calls=calls, host_total_ns=int(t * MS), host_self_ns=int(s * MS))
        for name, calls, t, s in rows
    ]


def kernels() -> list[KernelRow]:
    """By name, longest first."""
    return sorted((_kernel(*row, launch=False) for row in _KERNELS), key=lambda row: -row.total_ns)


def kernels_by_launch() -> list[KernelRow]:
    """By name, operator and launch configuration."""
    return sorted((_kernel(*row, launch=True) for row in _KERNELS), key=lambda row: -row.total_ns)


def _kernel(
    name: str,
    operator: str,
    calls: int,
    ms: float,
    cores: bool,
    blocks: float,
    occupancy: float,
    *,
    launch: bool,
) -> KernelRow:
    mean = int(ms * MS / calls)
    return KernelRow(
        id=f"{name} {operator} [256, 1, 1] [128, 1, 1]" if launch else name,
        name=name,
        group="communication" if "nccl" in name else "compute",
        operator=operator if launch else "",
        grid="[256, 1, 1]" if launch else "",
        block="[128, 1, 1]" if launch else "",
        registers=96 if launch else None,
        shared_memory=16_384 if launch else None,
        tensor_cores=cores,
        operator_eligible=cores or "gemm" in name,
        calls=calls,
        total_ns=int(ms * MS),
        mean_ns=mean,
        min_ns=mean // 2,
        max_ns=mean * 3,
        blocks_per_sm=blocks,
        occupancy=occupancy,
    )


def modules() -> list[ModuleRow]:
    """ResNet: a root, four stages, two blocks each, five leaves in a block."""
    made = [_module("ResNet_0", 0, 240.0, 2.0)]
    for stage in range(4):
        above = f"ResNet_0/Sequential_{stage}"
        made.append(_module(above, 1, 52.0 + stage, 0.4))
        for block in range(2):
            path = f"{above}/BasicBlock_{2 * stage + block}"
            made.append(_module(path, 2, 25.0 + stage / 2, 1.1))
            made += [
                _module(f"{path}/{leaf}_{10 * stage + 5 * block + n}", 3, ms, ms)
                for n, (leaf, ms) in enumerate(
                    [
                        ("Conv2d", 9.0),
                        ("BatchNorm2d", 2.2),
                        ("ReLU", 1.0),
                        ("Conv2d", 9.2),
                        ("BatchNorm2d", 2.1),
                    ]
                )
            ]
    return [*made, _module("CrossEntropyLoss_0", 0, 0.6, 0.6)]


def _module(path: str, depth: int, ms: float, own: float) -> ModuleRow:
    above, _, name = path.rpartition("/")
    return ModuleRow(
        id=path,
        name=name,
        parent=above,
        depth=depth,
        calls=6,
        operators=3,
        host_total_ns=int(ms * MS),
        host_self_ns=int(own * MS),
        device_total_ns=int(ms * 1.1 * MS),
        device_self_ns=int(own * 1.1 * MS),
        backward_host_ns=int(ms * 1.4 * MS),
        backward_device_ns=int(ms * 2.1 * MS),
    )


def memory(end_ns: int) -> list[Memory]:
    """A saw-tooth on the GPU: up in the forward pass, down in the backward one."""
    curve = []
    for index in range(600):
        phase = (index % 100) / 100
        tooth = phase / 0.55 if phase < 0.55 else (1 - phase) / 0.45
        allocated = int((9.1 + 52.3 * tooth) * 2**30)
        curve.append(MemoryPoint(end_ns * index // 600, allocated, (40 if index < 50 else 66) * 2**30))
    peak = max(curve, key=lambda point: point.allocated)
    live = [
        LiveAtPeak(operator="aten::cudnn_convolution", bytes=int(27.4 * 2**30), blocks=53),
        LiveAtPeak(operator="aten::cudnn_batch_norm", bytes=int(22.9 * 2**30), blocks=53),
        LiveAtPeak(operator="aten::to", bytes=19 * MIB, blocks=2),
    ]
    rows = [
        MemoryRow(
            operator=name,
            calls=calls,
            increase=increase * MIB,
            self_increase=own * MIB,
            allocations=calls * 2,
            self_allocations=calls,
            allocated=allocated * MIB,
            self_allocated=allocated * MIB // 2,
        )
        for name, calls, increase, own, allocated in (
            ("aten::cudnn_convolution", 318, 28_100, 28_100, 31_400),
            ("aten::convolution_backward", 318, -24_200, -20_000, 19_800),
            ("aten::cudnn_batch_norm", 318, 23_400, 23_400, 23_600),
        )
    ]
    return [
        Memory(
            device="cuda:0",
            peak=peak.allocated,
            peak_at_ns=peak.at_ns,
            reserved_peak=66 * 2**30,
            capacity=85_197_979_648,
            curve=curve,
            live=live,
            unknown_live=int(9.1 * 2**30),
            operators=rows,
            events=8_114,
            blocks=3_960,
            never_freed=12,
            freed_only=2,
        ),
        *cpu_memory(end_ns),
    ]


def cpu_memory(end_ns: int) -> list[Memory]:
    """Batches come and go."""
    curve = [MemoryPoint(end_ns * i // 200, int((120 + 80 * abs(math.sin(i / 9))) * MIB)) for i in range(200)]
    peak = max(curve, key=lambda point: point.allocated)
    return [
        Memory(
            device="cpu",
            peak=peak.allocated,
            peak_at_ns=peak.at_ns,
            curve=curve,
            live=[LiveAtPeak(operator="aten::stack", bytes=37 * MIB, blocks=2)],
            events=400,
            blocks=190,
        )
    ]


def launches() -> Launches:
    """A host that is just fast enough, and falls behind in the optimizer."""
    return Launches(
        launches=5_420,
        unlaunched=3,
        graph=0,
        delay_median_ns=41_200,
        delay_p95_ns=2_910_000,
        host_median_ns=5_900,
        short=2_210,
        tiny=2_904,
        tiny_ns=17_700_000,
        queue_mean=14.2,
        queue_max=188,
        queue_curve=[max(0.0, 60 * math.sin(i / 6) ** 2 - 8) for i in range(120)],
        calls=[
            ("cudaStreamSynchronize", 6, 214 * MS),
            ("cudaLaunchKernel", 5_380, 38 * MS),
            ("cudaMemcpyAsync", 36, 17 * MS),
        ],
        per_operator=[
            LaunchRow(
                operator=operator,
                launches=launches,
                host_ns=host * MS,
                device_ns=int(device * MS),
                delay_median_ns=delay,
                short=short,
            )
            for operator, launches, host, device, delay, short in (
                ("aten::add_", 1_932, 11, 11.8, 9_100, 1_840),
                ("aten::mul_", 966, 6, 5.9, 8_800, 360),
                ("aten::convolution_backward", 636, 4, 262.0, 901_000, 10),
            )
        ],
    )


def copies() -> list[CopyRow]:
    """To the device from pageable memory; back one number a step."""
    return [
        CopyRow(
            id="HtoD pageable",
            direction="HtoD",
            memory="pageable",
            calls=12,
            total_ns=16 * MS,
            exposed_ns=15 * MS,
            bytes=115_605_504,
            bandwidth=6.9e9,
            operators=[("aten::copy_", 16 * MS)],
            stack=["train.py(76): train", "train.py(112): main"],
            blocking="all",
        ),
        CopyRow(
            id="DtoH pageable",
            direction="DtoH",
            memory="pageable",
            calls=6,
            total_ns=90 * US,
            exposed_ns=88 * US,
            bytes=24,
            bandwidth=270_000.0,
            operators=[("aten::_local_scalar_dense", 90 * US)],
            blocking="all",
        ),
        CopyRow(
            id="memset device",
            direction="memset",
            memory="device",
            calls=40,
            total_ns=1_200 * US,
            bytes=9 * MIB,
        ),
    ]
