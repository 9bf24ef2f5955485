"""Written when the rules were done, to see how they do on what nobody had tuned them to."""

from __future__ import annotations

from advice.made import inference, parts, several
from fixtures.kineto import A100, H100, Recording

STEPS = 4


def tensor_parallel_prefill() -> Recording:
    """vLLM, eight ranks share a model: two all-reduces of activations a layer, nothing hides them."""
    r = Recording(H100, seed=71, with_stack=1, **several.job(0, 8))
    for number in range(3):
        with (
            r.annotation(f"execute_context_2(8192)_generation_{number}({number})"),
            r.function("vllm/v1/worker/gpu_model_runner.py(1371): execute_model"),
        ):
            for _ in range(32):
                for _ in range(2):
                    with r.op("aten::mm", 12):
                        r.launch("nvjet_tst_256x128_64x4_2x1_v_bz_coopB_TNT", 300, driver=True)
                    r.collective("allreduce", 33_554_432, 190, dtype="BFloat16", joins=7)
    r.sync()
    return r


def captured_training() -> Recording:
    """The whole step is one CUDA graph; the loader is too slow for it."""
    r = Recording(A100, seed=72)
    r.before(20_000)
    kernels = [(parts.GEMM["fp16"], 260.0), (parts.ADD, 20.0), (parts.GELU, 20.0)] * 60
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 34_000)
            parts.upload(r, 20_000_000)
            with r.annotation("Optimizer.step#Adam.step"):
                r.work(20)
            r.graph(kernels, pause=0.3)
    r.sync()
    return r


def pipeline() -> Recording:
    """A stage of a pipeline: it waits for micro-batches of the stage before."""
    r = Recording(H100, seed=73, **several.job(3, 8))
    for number in range(STEPS):
        with r.step(number + 3):
            for _ in range(8):
                r.collective("all_to_allv", 1_000_000, 3_000, dtype="BFloat16", stream=30, joins=7)
                parts.block(r, 3_500)
            with r.backward():
                for _ in range(8):
                    parts.block_backward(r, 7_000)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    for event in r.events:  # point to point: the same kernel, another name of the collective
        if event["args"].get("Collective name"):
            event["args"]["Collective name"] = "recv"
        event["name"] = event["name"].replace("nccl:all_to_all", "nccl:recv 2<-1")
    r.sync()
    return r


def logging_between_steps() -> Recording:
    """A logger serialises histograms between two steps; nothing synchronises."""
    r = Recording(A100, seed=74, with_stack=1)
    for number in range(STEPS):
        with r.step(number + 3), r.function("train.py(120): fit"):
            parts.loader(r, 60)
            parts.upload(r)
            parts.forward(r, 12, 6_000, "fp16")
            parts.backward(r, 12, 12_000, "fp16")
            parts.adamw(r, 300, kernel=parts.FUSED_ADAM)
            with r.function("train.py(141): log_metrics"), r.function("wandb/sdk/wandb_run.py(1800): log"):
                r.work(31_000)
    r.sync()
    return r


def diffusion_eager() -> Recording:
    """A small diffusion model at batch 1, operator by operator: the GPU waits for launches."""
    r = Recording(A100, seed=75, with_stack=1)
    for number in range(5):
        with (
            r.step(number + 3),
            r.function("generate.py(22): main"),
            r.function("diffusers/models/unets/unet_2d_condition.py(1040): forward"),
        ):
            for _ in range(60):
                parts.pointwise(r, "aten::group_norm", parts.NORM, 6, host=12)
                with (
                    r.op("aten::conv2d", 4),
                    r.op("aten::cudnn_convolution", 14, **{"Input type": ["c10::Half"] * 2}),
                ):
                    r.launch("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 11)
                parts.pointwise(r, "aten::silu", parts.GELU, 4, host=12)
                parts.linear(r, 6, "fp16")
    r.sync()
    return r


def nan_checks() -> Recording:
    """Every layer's output is checked with `if torch.isnan(x).any()`."""
    r = Recording(A100, seed=76, with_stack=1)
    for number in range(STEPS):
        with r.step(number + 3), r.function("train.py(50): step"):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(24):
                parts.block(r, 60, "fp16")
                with r.function("train.py(33): check"):
                    parts.pointwise(r, "aten::isnan", parts.MUL, 5)
                    parts.pointwise(r, "aten::any", parts.REDUCE, 5)
                    with (
                        r.op("aten::is_nonzero", 2),
                        r.op("aten::item", 2),
                        r.op("aten::_local_scalar_dense", 3),
                    ):
                        r.copy("DtoH", 1, pageable=True)
                        r.sync("cudaStreamSynchronize")
            parts.backward(r, 24, 2_400, "fp16")
            parts.adamw(r, 300, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def slow_validation() -> Recording:
    """The last of six steps also validates and writes a checkpoint."""
    r = Recording(A100, seed=77)
    r.before(75_000)
    for number in range(6):
        with r.step(number + 10):
            parts.loader(r, 90)
            parts.upload(r)
            parts.forward(r, 12, 25_000, "fp16")
            parts.backward(r, 12, 50_000, "fp16")
            parts.adamw(r, 1_200, kernel=parts.FUSED_ADAM)
            if number == 3:
                parts.forward(r, 12, 110_000, "fp16")
    r.sync()
    return r


def late_rank() -> list[Recording]:
    """Two ranks under DDP; rank 1 waits for its loader, and rank 0 for rank 1."""
    return [_late(rank) for rank in range(2)]


def _late(rank: int) -> Recording:
    r = Recording(A100, seed=80 + rank, **several.job(rank, 2))
    r.random.uniform = lambda low, high: 1.0  # type: ignore[method-assign, assignment]
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 26_000 if rank == 1 else 100)
            parts.upload(r)
            with r.annotation("DistributedDataParallel.forward"):
                parts.forward(r, 12, 12_000, "fp16")
            with r.backward():
                parts.block_backward(r, 24_000, "fp16")
                several._reduced(r, 25_000_000, 2_500 if rank == 1 else 28_400, ranks=2)
            r.free[7] = max(r.free[7], r.free[20])
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
            r.sync()
    return r


def server_graphs_device_bound() -> Recording:
    """SGLang decode at a large batch: graphs keep the device busy."""
    r = Recording(H100, seed=78, with_stack=1)
    for _ in range(5):
        with (
            r.annotation("step[DECODE bs=256]"),
            r.function("sglang/srt/model_executor/model_runner.py(1600): forward"),
        ):
            r.work(400)
            r.graph(inference._decode_kernels(32, "bf16", 21_000), pause=0.2)
            with r.op("aten::to", 2), r.op("aten::copy_", 3):
                r.copy("DtoH", 2_048, pageable=True)
    return r
