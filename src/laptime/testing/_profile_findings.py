"""What the rules would say about the made-up profile."""

from __future__ import annotations

from laptime.records.finding import Finding

TRAIN = ["train.py(88): train", "train.py(112): main", "train.py(118): <module>"]
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
WGRAD = "cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_128x128_16x5>"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"


_FINDINGS = [
    Finding(
        kind="profile/input-bound",
        severity="problem",
        sentence="the host waits 52.0 ms of each 183 ms step for the DataLoader, and so does the device",
        evidence={"wait_ns_per_step": 52_000_000, "step_ns": 183_000_000, "workers": 2, "share": 0.284},
        next="laptime tune train.py --only loader_workers",
        gain=0.0519,
        change="DataLoader(..., num_workers=8, persistent_workers=True, prefetch_factor=4)",
        optimization="loader_workers",
        stack=["train.py(74): train", "train.py(112): main"],
        rows=[f"operators/{LOADER}"],
    ),
    Finding(
        kind="profile/fp32-matmul",
        severity="advice",
        sentence="87 % of kernel time could use tensor cores, 12 % does: matrix products run in float32",
        evidence={"eligible": 0.871, "used": 0.118, "dtypes": ["float"]},
        next="laptime tune train.py --only amp_bf16",
        gain=0.041,
        change='with torch.autocast("cuda", dtype=torch.bfloat16): ...',
        optimization="amp_bf16",
        rows=["operators/aten::conv2d", "operators/aten::addmm", "kernels/ampere_sgemm_128x64_nn"],
    ),
    Finding(
        kind="profile/straggler",
        severity="problem",
        sentence="rank 3 arrives last in 25 of 30 collectives; the others wait 16.0 ms per step for it",
        evidence={"rank": 3, "share": 0.81},
        next="look at the loader of rank 3: its files may lie on a slower disk",
        gain=0.016,
        change="give each rank the same amount of work, or move its data",
        rows=["ranks/3"],
    ),
    Finding(
        kind="profile/unfused-optimizer",
        severity="advice",
        sentence="the optimizer launches 320 kernels a step with a mean of 6 us each",
        evidence={"kernels_per_step": 320, "mean_ns": 6_100},
        next="laptime tune train.py --only fused_optimizer",
        gain=0.0094,
        change="torch.optim.SGD(..., fused=True)",
        optimization="fused_optimizer",
        stack=["train.py(90): train", "train.py(112): main"],
        rows=["operators/aten::add_", f"kernels/{ADD}"],
    ),
    Finding(
        kind="profile/synchronisation",
        severity="advice",
        sentence="aten::item makes the host wait for the device once a step",
        evidence={"calls_per_step": 1, "idle_ns_per_step": 4_500_000},
        next="laptime tune train.py --only defer_logging",
        gain=0.0045,
        change="log loss.detach() and call .item() every 50 steps",
        optimization="defer_logging",
        stack=TRAIN,
        rows=["operators/aten::item", "synchronisations/cudaStreamSynchronize aten::item"],
    ),
    Finding(
        kind="profile/pageable-copy",
        severity="advice",
        sentence="copies to the device read pageable memory at 6.9 GB/s and hold the host 2.7 ms a step",
        evidence={"bytes_per_step": 19_267_584, "bandwidth": 6.9e9},
        next="laptime tune train.py --only pin_memory",
        gain=0.0026,
        change="DataLoader(..., pin_memory=True) and x.to(device, non_blocking=True)",
        optimization="pin_memory",
        stack=["train.py(76): train", "train.py(112): main"],
        rows=["copies/HtoD pageable"],
    ),
    Finding(
        kind="profile/memory-near-limit",
        severity="info",
        sentence="the peak of 61.4 GiB leaves 17.9 GiB free",
        evidence={"peak": 65_927_741_440},
        rows=["memory/cuda:0"],
    ),
]


def findings() -> list[Finding]:
    """Seven, in the order in which a report shows them: the largest gain first, facts without gain last."""
    return list(_FINDINGS)
