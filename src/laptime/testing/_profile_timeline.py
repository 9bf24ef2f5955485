"""A made-up training step, event by event: two host threads, a stream that computes, one for NCCL."""

from __future__ import annotations

import random

from laptime.records.timeline import Lane, Timeline

US = 1_000
CATEGORIES = [
    "annotation",
    "python",
    "operator",
    "runtime",
    "kernel",
    "communication",
    "memcpy",
    "memset",
    "dataloader",
]

_LAYER = [
    ("aten::conv2d", "aten::cudnn_convolution", "ampere_sgemm_128x64_nn"),
    (
        "aten::batch_norm",
        "aten::cudnn_batch_norm",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>",
    ),
    (
        "aten::relu_",
        "aten::clamp_min_",
        "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar>",
    ),
]
_BACKWARD = [
    (
        "ReluBackward0",
        "aten::threshold_backward",
        "void at::native::vectorized_elementwise_kernel<4, threshold>",
    ),
    (
        "CudnnBatchNormBackward0",
        "aten::cudnn_batch_norm_backward",
        "void cudnn::bn_bw_1C11_kernel_new<float, 512>",
    ),
    (
        "ConvolutionBackward0",
        "aten::convolution_backward",
        "cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_128x128_16x5>",
    ),
]


class _Drawing:
    """Lanes that are being filled; times in nanoseconds since the start of the step."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.lanes = [
            Lane(kind="host", name="thread 4113 main"),
            Lane(kind="host", name="thread 4188 autograd"),
            Lane(kind="device", name="cuda:0 stream 7"),
            Lane(kind="device", name="cuda:0 stream 20 (nccl)"),
        ]
        self.arrows: list[tuple[int, int, int, int]] = []
        self.free = {2: 0, 3: 0}

    def add(self, lane: int, name: str, category: str, start: int, dur: int, depth: int = 0) -> int:
        own = self.lanes[lane]
        own.start_ns.append(start)
        own.dur_ns.append(dur)
        own.name_index.append(self.names.setdefault(name, len(self.names)))
        own.depth.append(depth)
        own.category.append(CATEGORIES.index(category))
        return len(own.start_ns) - 1

    def launch(
        self, thread: int, at: int, stream: int, kernel: str, dur: int, *, depth: int, kind: str
    ) -> None:
        """A runtime call on a thread, and what it starts on a stream once that is free."""
        call = "cudaMemcpyAsync" if kind == "memcpy" else "cudaLaunchKernel"
        row = self.add(thread, call, "runtime", at, 6 * US, depth)
        start = max(self.free[stream], at + 9 * US)
        self.free[stream] = start + dur
        self.arrows.append((thread, row, stream, self.add(stream, kernel, kind, start, dur)))


def timeline(layers: int = 110) -> Timeline:
    """A step that waits for its loader, copies from pageable memory, and reads the loss on the host."""
    dice = random.Random(3)  # noqa: S311 (not for secrets)
    made = _Drawing()
    made.add(0, "ProfilerStep#7", "annotation", 0, 1)
    made.add(
        0,
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        "dataloader",
        120 * US,
        51_900 * US,
        1,
    )
    made.add(0, "aten::to", "operator", 52_200 * US, 2_900 * US, 1)
    made.add(0, "aten::copy_", "operator", 52_230 * US, 2_850 * US, 2)
    made.launch(0, 52_300 * US, 2, "Memcpy HtoD (Pageable -> Device)", 2_650 * US, depth=3, kind="memcpy")
    now = _forward(made, dice, 55_200 * US, layers)
    end = _backward(made, dice, now + 300 * US, layers)
    end = _optimizer(made, dice, end)
    made.lanes[0].dur_ns[0] = end
    return Timeline(
        step=7,
        dur_ns=end,
        names=list(made.names),
        categories=CATEGORIES,
        lanes=made.lanes,
        arrows=made.arrows,
        dropped=312,
    )


def _forward(made: _Drawing, dice: random.Random, begin: int, layers: int) -> int:
    now = begin + 40 * US
    outer = made.add(0, "nn.Module: ResNet_0", "python", begin, 1, 1)
    for index in range(layers):
        name, inner, kernel = _LAYER[index % 3]
        host = dice.randint(90, 210) * US
        made.add(0, name, "operator", now, host, 2)
        made.add(0, inner, "operator", now + 12 * US, host - 20 * US, 3)
        length = dice.randint(350, 620) if index % 3 == 0 else dice.randint(40, 130)
        made.launch(0, now + 30 * US, 2, kernel, length * US, depth=4, kind="kernel")
        now += host + dice.randint(15, 60) * US
    made.lanes[0].dur_ns[outer] = now - begin
    made.add(0, "aten::cross_entropy_loss", "operator", now + 20 * US, 150 * US, 1)
    made.launch(
        0,
        now + 60 * US,
        2,
        "void at::native::softmax_warp_forward<float, 10>",
        18 * US,
        depth=2,
        kind="kernel",
    )
    return now + 200 * US


def _backward(made: _Drawing, dice: random.Random, begin: int, layers: int) -> int:
    now = begin + 100 * US
    for index in range(layers):
        name, inner, kernel = _BACKWARD[index % 3]
        host = dice.randint(120, 330) * US
        made.add(1, f"autograd::engine::evaluate_function: {name}", "operator", now, host)
        made.add(1, name, "operator", now + 8 * US, host - 14 * US, 1)
        made.add(1, inner, "operator", now + 20 * US, host - 40 * US, 2)
        length = dice.randint(1_500, 2_550) if index % 3 == 2 else dice.randint(130, 400)
        made.launch(1, now + 40 * US, 2, kernel, length * US, depth=3, kind="kernel")
        if index % 22 == 21:
            made.add(1, "nccl:all_reduce", "communication", now + host - 30 * US, 22 * US, 1)
            made.launch(
                1,
                now + host - 25 * US,
                3,
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                2_400 * US,
                depth=2,
                kind="communication",
            )
        now += host + dice.randint(10, 40) * US
    made.add(0, "aten::item", "operator", now + 60 * US, max(made.free.values()) - now, 1)
    made.add(0, "cudaStreamSynchronize", "runtime", now + 90 * US, max(made.free.values()) - now - 40 * US, 2)
    return max(max(made.free.values()), now) + 200 * US


def _optimizer(made: _Drawing, dice: random.Random, begin: int) -> int:
    now = begin + 60 * US
    outer = made.add(0, "Optimizer.step#SGD.step", "annotation", begin, 1, 1)
    for _ in range(320):
        host = dice.randint(22, 38) * US
        made.add(0, "aten::add_", "operator", now, host, 2)
        made.launch(
            0,
            now + 6 * US,
            2,
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
            dice.randint(3, 9) * US,
            depth=3,
            kind="kernel",
        )
        now += host + 4 * US
    made.lanes[0].dur_ns[outer] = now - begin
    return now
