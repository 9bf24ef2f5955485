"""Inference: scripts, servers in all of their phases, and files that show hardly more than a beginning."""

# ruff: noqa: E501  names of kernels are as long as they are

from __future__ import annotations

from typing import Any

from advice.made import parts
from fixtures.kineto import A100, B200, H100, MI300X, RTX2080TI, Recording

PAGED = "_ZN4vllm25paged_attention_v2_kernelI14__hip_bfloat16S1_Li128ELi16ELi256ELNS_18Fp8KVCacheDataTypeE0ELb0EEEvPfS3_"
CACHE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>"
RMS = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*)"
SILU = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>"


def _timesformer(device: dict[str, Any], seed: int, host_us: float, model_us: float) -> Recording:
    """A video is resized and normalised by the processor in NumPy, then the model runs once."""
    r = Recording(device, seed=seed, with_stack=1)
    kind = "rocm" if "AMD" in device["name"] else "bf16"
    with r.step(3), r.function("run_timesformer.py(48): main"):
        with (
            r.function("run_timesformer.py(31): prepare_inputs"),
            r.function("transformers/models/videomae/image_processing_videomae.py(247): preprocess"),
        ):
            for _ in range(8):
                with (
                    r.function("transformers/image_transforms.py(312): resize"),
                    r.function("PIL/Image.py(2293): resize"),
                    r.function("<built-in method resize of ImagingCore object>"),
                ):
                    r.work(host_us * 0.06)
                with r.function("transformers/image_transforms.py(98): rescale"):
                    r.work(host_us * 0.02)
                with (
                    r.function("transformers/image_transforms.py(371): normalize"),
                    r.function("<built-in function astype>"),
                ):
                    r.work(host_us * 0.045)
        with r.function("run_timesformer.py(40): infer"):
            parts.upload(r, 4_800_000, pageable=True)
            with (
                r.function("torch/nn/modules/module.py(1736): _wrapped_call_impl"),
                r.function("transformers/models/timesformer/modeling_timesformer.py(631): forward"),
            ):
                for _ in range(45):
                    parts.block(r, model_us / 45, kind)
            r.sync()
    return r


def mi300_timesformer() -> Recording:
    """267 of 391 ms are preprocessing on the host."""
    return _timesformer(MI300X, 31, 267_000, 115_000)


def h100_timesformer() -> Recording:
    """57 % of the time is preprocessing."""
    return _timesformer(H100, 32, 155_000, 108_000)


def loop_with_loader() -> Recording:
    """Evaluation: a loader without workers, a model without gradients."""
    r = Recording(A100, seed=33)
    r.before(32_000)
    for number in range(4):
        with r.step(number + 3):
            parts.loader(r, 45_000, workers=False)
            parts.upload(r, 38_000_000)
            parts.forward(r, 24, 32_000, "fp16")
    r.sync()
    return r


def small_batch() -> Recording:
    """An encoder at batch 1, eager: the device waits for launches. No training, no loader."""
    r = Recording(H100, seed=34)
    for number in range(5):
        with r.step(number + 3):
            for _ in range(12):
                parts.block(r, 45)
            with r.op("aten::to", 3), r.op("aten::copy_", 3):
                r.copy("DtoH", 4_000, pageable=True)
    return r


def _decode_kernels(layers: int, kind: str, us: float) -> list[tuple[str, float]]:
    gemm = parts.GEMM[kind]
    attention = (
        PAGED if kind == "rocm" else "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
    )
    layer = [
        (RMS, 0.05),
        (gemm, 0.2),
        (CACHE, 0.05),
        (attention, 0.2),
        (gemm, 0.1),
        (RMS, 0.05),
        (gemm, 0.2),
        (SILU, 0.05),
        (gemm, 0.1),
    ]
    return [(name, us / layers * share) for _ in range(layers) for name, share in layer]


def server_eager() -> Recording:
    """vLLM with `enforce_eager` on a B200: decode, launched operator by operator."""
    r = Recording(B200, seed=35, with_stack=1)
    with r.function("vllm/v1/worker/gpu_worker.py(330): execute_model"):
        for number in range(6):
            with (
                r.annotation(f"execute_context_0(0)_generation_{number + 8}({number + 8})"),
                r.function("vllm/v1/worker/gpu_model_runner.py(1371): execute_model"),
            ):
                for _ in range(32):
                    for name, kernel, us in (
                        ("_C::fused_add_rms_norm", RMS, 3),
                        ("aten::mm", parts.GEMM["bf16"], 9),
                        ("_C_cache_ops::reshape_and_cache_flash", CACHE, 2.5),
                        (
                            "vllm::unified_attention_with_output",
                            "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext",
                            8,
                        ),
                        ("aten::mm", parts.GEMM["bf16"], 6),
                        ("_C::silu_and_mul", SILU, 3),
                        ("aten::mm", parts.GEMM["bf16"], 9),
                    ):
                        with r.op(name, 14):
                            r.launch(kernel, us, driver="mm" in name)
                with r.function("vllm/v1/sample/sampler.py(70): forward"):
                    for _ in range(6):
                        parts.pointwise(r, "aten::argmax", parts.REDUCE, 4)
                with r.op("aten::to", 2), r.op("aten::copy_", 3):
                    r.copy("DtoH", 64, pageable=True)
    return r


def server_prefill() -> Recording:
    """Prefill on an H100: long products, the device is full."""
    r = Recording(H100, seed=36, with_stack=1)
    for number in range(4):
        with (
            r.annotation(f"execute_context_4(8192)_generation_{number}({number})"),
            r.function("vllm/v1/worker/gpu_model_runner.py(1371): execute_model"),
        ):
            for _ in range(32):
                for name, kernel, us in (
                    ("_C::fused_add_rms_norm", RMS, 40),
                    ("aten::mm", "nvjet_tst_256x128_64x4_2x1_v_bz_coopB_TNT", 700),
                    ("_C_cache_ops::reshape_and_cache_flash", CACHE, 15),
                    (
                        "vllm::unified_attention_with_output",
                        "void"
                        " cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>",
                        300,
                    ),
                    ("aten::mm", "nvjet_tst_256x128_64x4_2x1_v_bz_coopB_TNT", 500),
                    ("_C::silu_and_mul", SILU, 60),
                    ("aten::mm", "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 900),
                ):
                    with r.op(name, 14):
                        r.launch(kernel, us, driver="mm" in name)
            with r.op("aten::to", 2), r.op("aten::copy_", 3):
                r.copy("DtoH", 64, pageable=True)
    return r


def server_decode_graphs() -> Recording:
    """vLLM, compiled and replayed from graphs on an MI300X; the scheduler works between the steps."""
    r = Recording(MI300X, seed=37, with_stack=1)
    for number in range(6):
        with (
            r.annotation(f"execute_context_0(0)_generation_{number + 32}({number + 32})"),
            r.function("vllm/v1/worker/gpu_model_runner.py(1371): execute_model"),
        ):
            with r.function("vllm/v1/worker/gpu_model_runner.py(598): _prepare_inputs"):
                r.work(2_300)
                for _ in range(5):
                    with r.op("aten::copy_", 20):
                        r.copy("HtoD", 2_048)
            with r.function("vllm/compilation/cuda_graph.py(120): __call__"):
                r.graph(_decode_kernels(46, "rocm", 7_200))
            with r.function("vllm/v1/sample/sampler.py(70): forward"):
                for _ in range(7):
                    parts.pointwise(r, "aten::argmax", parts.REDUCE, 8, host=30)
            with r.op("aten::to", 2), r.op("aten::copy_", 3):
                r.copy("DtoH", 256, call="hipMemcpyWithStream")
            with r.function("vllm/v1/core/sched/scheduler.py(701): update_from_output"):
                r.work(3_100)
    return r


def server_capture() -> Recording:
    """vLLM captures its graphs: warm-up runs, captures, instantiation. The key-value cache fills the device."""
    r = Recording(H100, seed=38, with_stack=1, profile_memory=1)
    capacity = H100["totalGlobalMem"]
    r.allocation(int(capacity * 0.7), int(capacity * 0.915), int(capacity * 0.92))
    with r.function("vllm/v1/worker/gpu_model_runner.py(2200): capture_model"):
        for size in (256, 128, 64, 32, 16, 8, 4, 2, 1):
            with r.function("vllm/v1/worker/gpu_model_runner.py(1900): _dummy_run"):
                for _ in range(32):
                    with r.op("aten::mm", 10):
                        r.launch(parts.GEMM["bf16"], 6 + size / 32, driver=True)
                    with r.op("_C::silu_and_mul", 8):
                        r.launch(SILU, 3)
                r.sync("cudaDeviceSynchronize")
                r.call("cudaStreamBeginCapture_v10000", 12)
                for _ in range(64):
                    with r.op("aten::mm", 12):
                        r.call("cudaLaunchKernel", 2)
                r.call("cudaStreamEndCapture_v10000", 40)
                r.call("cudaGraphInstantiateWithFlags_v11040", 2_500)
    return r


def server_copy_waits() -> Recording:
    """sglang: the host hands out graphs whose work the file shows in parts, and waits for the tokens."""
    r = Recording(MI300X, seed=39, with_stack=1)
    with r.function("sglang/srt/managers/scheduler.py(1710): event_loop_normal"):
        for _ in range(15):
            with r.annotation("step[DECODE bs=64]"):
                r.graph(_decode_kernels(4, "rocm", 1_600)[:36], cost=60)
                r.free[7] = r.now + 30_800  # the rest of the graph, which the file does not have
                with (
                    r.function(
                        "sglang/srt/managers/scheduler_output_processor_mixin.py(64):"
                        " process_batch_result_decode"
                    ),
                    r.op("aten::to", 2),
                    r.op("aten::copy_", 3),
                ):
                    r.copy("DtoH", 512, call="hipMemcpyWithStream")
                r.work(1_200)
    return r


def diffusion_graphs() -> Recording:
    """Flux: most of the model is replayed from graphs, embeddings and the scheduler are launched."""
    r = Recording(MI300X, seed=40)
    for _ in range(4):
        for _ in range(400):
            parts.pointwise(r, "aten::mul", parts.MUL, 8, host=6)
        r.graph([(parts.GEMM["rocm"], 70.0), (parts.ADD, 14.0), (parts.GELU, 14.0)] * 522, pause=0.6)
        r.sync("hipStreamSynchronize")
        r.work(6_000)
    return r


def linear_initialisation() -> Recording:
    """One linear layer on a 2080 Ti; the recording has the making of the context and cuBLAS's handle."""
    r = Recording(RTX2080TI, seed=41)
    with r.op("aten::to", 3), r.op("aten::empty_strided", 3):
        r.call("cudaFree", 4_730_000, correlation=5)
        r.call("cudaMalloc", 180, correlation=6)
    with r.op("aten::linear", 3), r.op("aten::addmm", 20, **{"Input type": ["float"] * 3}):
        r.call("cudaFree", 2_100_000, correlation=7)
        r.call("cudaMalloc", 240, correlation=8)
        r.launch(parts.GEMM["volta"], 60)
    r.sync()
    for _ in range(20):
        with r.op("aten::linear", 3), r.op("aten::addmm", 20, **{"Input type": ["float"] * 3}):
            r.launch(parts.GEMM["volta"], 60)
    r.sync()
    return r


def alexnet_initialisation() -> Recording:
    """AlexNet's first forward on an A100: the context, cuDNN's libraries, then 8 layers."""
    r = Recording(A100, seed=42)
    with r.op("aten::to", 3), r.op("aten::_to_copy", 3), r.op("aten::empty_strided", 3):
        r.call("cudaFree", 34_900_000, correlation=5)
        r.call("cudaMalloc", 500, correlation=6)
    with r.op("aten::copy_", 5):
        r.copy("HtoD", 244_000_000, pageable=True, gbs=6)
    for index in range(8):
        with r.op("aten::conv2d", 3), r.op("aten::cudnn_convolution", 60, **{"Input type": ["float"] * 2}):
            if index == 0:
                r.call("cudaFree", 1_450_000, correlation=7)
                r.call("cuModuleLoadDataEx", 320_000, driver=True, correlation=8)
            r.launch("ampere_scudnn_128x64_relu_xregs_large_nn_v1", 180)
    r.sync()
    return r


def qwen_elementwise() -> Recording:
    """A language model's prefill in eager mode: more than half of the time is elementwise kernels."""
    r = Recording(H100, seed=43)
    for number in range(2):
        with r.step(number + 3):
            for _ in range(24):
                for name, kernel, us in (
                    ("aten::to", parts.COPY, 60),
                    ("aten::pow", parts.MUL, 60),
                    ("aten::mean", parts.REDUCE, 40),
                    ("aten::mul", parts.MUL, 60),
                    ("aten::mul", parts.MUL, 55),
                ):
                    parts.pointwise(r, name, kernel, us)
                for _ in range(3):
                    parts.linear(r, 120)
                for name, kernel, us in (
                    ("aten::mul", parts.MUL, 40),
                    ("aten::neg", parts.MUL, 30),
                    ("aten::cat", parts.COPY, 45),
                    ("aten::add", parts.ADD, 40),
                ):
                    parts.pointwise(r, name, kernel, us)
                with r.op("aten::scaled_dot_product_attention", 4):
                    r.launch(parts.FLASH, 90)
                parts.linear(r, 140)
                for name, kernel, us in (("aten::silu", parts.GELU, 90), ("aten::mul", parts.MUL, 90)):
                    parts.pointwise(r, name, kernel, us)
    r.sync()
    return r


def growing_cache() -> Recording:
    """`generate()` with a dynamic cache: keys and values are copied into longer ones at every token."""
    r = Recording(A100, seed=44)
    for number in range(6):
        with r.step(number + 3):
            for _ in range(32):
                parts.linear(r, 25, "fp16", m=1)
                for _ in range(2):
                    shapes = [[[16, 32, 2047 + number, 128], [16, 32, 1, 128]], []]
                    with r.op(
                        "aten::cat", 6, **{"Input Dims": shapes, "Input type": ["TensorList", "Scalar"]}
                    ):
                        r.launch(
                            "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<"
                            "at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>",
                            170,
                        )
                with r.op("aten::scaled_dot_product_attention", 4):
                    r.launch(parts.FLASH, 120)
                for _ in range(3):
                    parts.linear(r, 40, "fp16", m=1)
            with r.op("aten::item", 2), r.op("aten::_local_scalar_dense", 2):
                r.copy("DtoH", 8, pageable=True)
    return r
