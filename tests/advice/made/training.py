"""Training steps on one accelerator: fed well, and slow in one planted way each."""

# ruff: noqa: E501  names of kernels are as long as they are

from __future__ import annotations

from advice.made import parts
from fixtures.kineto import A100, H100, V100, Recording

STEPS = 4


def well_fed() -> Recording:
    """bf16, fused optimizer, workers ahead: the device computes, and there is little to say."""
    r = Recording(H100, seed=1)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 90)
            parts.upload(r)
            parts.forward(r, 24, 33_000)
            parts.backward(r, 24, 66_000)
            parts.adamw(r, 1_200, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def float32_products() -> Recording:
    """float32 without TF32 on an A100."""
    r = Recording(A100, seed=2)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 80)
            parts.upload(r)
            parts.forward(r, 12, 60_000, "float")
            parts.backward(r, 12, 120_000, "float")
            parts.adamw(r, 1_200)
    r.sync()
    return r


def slow_loader() -> Recording:
    """Workers that cannot keep up: 23 % of the step waits for them."""
    r = Recording(A100, seed=3)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 31_000)
            parts.upload(r, 38_000_000)
            parts.forward(r, 12, 30_000, "fp16")
            parts.backward(r, 12, 60_000, "fp16")
            parts.adamw(r, 1_200)
            r.sync()
    return r


def no_workers() -> Recording:
    """The loop decodes images itself."""
    r = Recording(V100, seed=4)
    r.before(70_000)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 135_000, workers=False)
            parts.upload(r, 38_000_000, pageable=True)
            parts.forward(r, 12, 24_000, "fp16")
            parts.backward(r, 12, 48_000, "fp16")
            parts.adamw(r, 1_200)
    r.sync()
    return r


def pageable_uploads() -> Recording:
    """Large batches out of pageable memory: nothing overlaps."""
    r = Recording(A100, seed=5)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 90)
            parts.upload(r, 120_000_000, pageable=True)
            parts.forward(r, 12, 25_000, "fp16")
            parts.backward(r, 12, 50_000, "fp16")
            parts.adamw(r, 1_200)
    r.sync()
    return r


def pinned_uploads() -> Recording:
    """Large float32 images over the bus in every step, pinned, on the stream that computes."""
    r = Recording(A100, seed=6)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 90)
            parts.upload(r, 308_000_000)
            parts.forward(r, 12, 25_000, "fp16")
            parts.backward(r, 12, 50_000, "fp16")
            parts.adamw(r, 1_200)
    r.sync()
    return r


def item_in_every_step() -> Recording:
    """`loss.item()` behind every backward, and slow launches after it."""
    r = Recording(A100, seed=7)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 90)
            parts.upload(r)
            parts.forward(r, 24, 9_000, "fp16")
            parts.backward(r, 24, 18_000, "fp16")
            with (
                r.function("train.py(61): train_epoch"),
                r.op("aten::item", 3),
                r.op("aten::_local_scalar_dense", 3),
            ):
                r.copy("DtoH", 4, pageable=True, call="cudaMemcpyAsync")
                r.sync("cudaStreamSynchronize")
            with r.function("train.py(63): train_epoch"):
                r.work(14_000)
            parts.adamw(r, 600)
    r.sync()
    return r


def synchronise_outside() -> Recording:
    """A timer that calls `torch.cuda.synchronize()` beside a harmless `if flag:` of a tensor."""
    r = Recording(A100, seed=8)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.upload(r)
            parts.forward(r, 12, 9_000, "fp16")
            parts.backward(r, 12, 18_000, "fp16")
            r.sync("cudaDeviceSynchronize")
            r.work(14_000)
            with r.op("aten::is_nonzero", 2), r.op("aten::item", 1), r.op("aten::_local_scalar_dense", 1):
                r.copy("DtoH", 1, pageable=True)
            parts.adamw(r, 600)
    r.sync()
    return r


def tiny_operators() -> Recording:
    """A recurrent cell of its own making in eager mode: a thousand launches of a few microseconds."""
    r = Recording(A100, seed=9)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(500):
                parts.pointwise(r, "aten::mul", parts.MUL, 2.2, host=9)
                parts.pointwise(r, "aten::add", parts.ADD, 2.2, host=9)
                parts.pointwise(r, "aten::tanh", parts.GELU, 2.2, host=9)
            parts.backward(r, 12, 1_500, "fp16")
            parts.adamw(r, 200)
    r.sync()
    return r


def compiled() -> Recording:
    """torch.compile without graphs: fused Triton kernels, launched one by one faster than the host can."""
    r = Recording(H100, seed=10)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with (
                r.annotation("Torch-Compiled Region: 0/0"),
                r.op("CompiledFunction", 60),
                r.annotation("## Call CompiledFxGraph fabc ##"),
            ):
                for index in range(120):
                    with r.op(f"triton_poi_fused_add_gelu_{index % 9}", 14):
                        r.launch(f"triton_poi_fused_add_gelu_{index % 9}", 7, driver=True)
                    with r.op("aten::mm", 12, **{"Input type": ["c10::BFloat16"] * 2}):
                        r.launch(parts.GEMM["bf16"], 16, driver=True)
            with r.backward(), r.op("CompiledFunctionBackward", 40, **{"Fwd thread id": 1}):
                for index in range(200):
                    with r.op(f"triton_red_fused_native_layer_norm_backward_{index % 9}", 14):
                        r.launch(f"triton_red_fused_native_layer_norm_backward_{index % 9}", 7, driver=True)
                    with r.op("aten::mm", 12, **{"Input type": ["c10::BFloat16"] * 2}):
                        r.launch(parts.GEMM["bf16"], 16, driver=True)
            parts.adamw(r, 300, kernel=parts.FUSED_ADAM, kernels=2)
    r.sync()
    return r


def recompiles() -> Recording:
    """Lengths change, and Dynamo compiles anew inside the steps."""
    r = Recording(A100, seed=11)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with r.annotation(f"Torch-Compiled Region: 0/{number + 2}"):
                with r.annotation("_compile.compile_inner (dynamo_timed)"):
                    r.work(40_000)
                for index in range(60):
                    with r.op(f"triton_poi_fused_add_{index % 9}", 8):
                        r.launch(f"triton_poi_fused_add_{index % 9}", 40, driver=True)
                    with r.op("aten::mm", 8, **{"Input type": ["c10::Half"] * 2}):
                        r.launch(parts.GEMM["fp16"], 400)
            parts.backward(r, 12, 45_000, "fp16")
            parts.adamw(r, 600)
            r.sync()
    return r


def single_tensor_adamw() -> Recording:
    """AdamW walks over 700 parameters, four kernels each."""
    r = Recording(A100, seed=12)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            parts.forward(r, 12, 12_000, "fp16")
            parts.backward(r, 12, 24_000, "fp16")
            parts.single_tensor(r, "AdamW", 700)
    r.sync()
    return r


def single_tensor_adadelta() -> Recording:
    """The same with an optimizer that has a foreach version and no fused one."""
    r = Recording(A100, seed=13)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            parts.forward(r, 12, 12_000, "fp16")
            parts.backward(r, 12, 24_000, "fp16")
            parts.single_tensor(r, "Adadelta", 700)
    r.sync()
    return r


def zeroed_gradients() -> Recording:
    """`zero_grad(set_to_none=False)` fills 700 gradients with zeros, one launch each."""
    r = Recording(A100, seed=14)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with r.annotation("Optimizer.zero_grad#SGD.zero_grad"):
                for _ in range(700):
                    with r.op("aten::zero_", 3), r.op("aten::fill_", 4):
                        r.launch(parts.ZERO, 1.6)
            parts.forward(r, 12, 3_000, "fp16")
            parts.backward(r, 12, 6_000, "fp16")
            with r.annotation("Optimizer.step#SGD.step"), r.op("aten::_foreach_add_", 20):
                r.launch(parts.MULTI_TENSOR, 500)
    return r


def allocator_retries() -> Recording:
    """The cache is too small: each step frees cached blocks and asks the driver again."""
    r = Recording(A100, seed=15, profile_memory=1)
    full = 80_500_000_000
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            r.allocation(3_000_000_000, full - 5_000_000_000, 81_000_000_000)
            parts.forward(r, 12, 30_000, "fp16")
            with r.op("aten::empty", 4):
                r.call("cudaMalloc", 300, correlation=1_000_000 + number)
                r.sync("cudaDeviceSynchronize")
                for index in range(6):
                    r.call("cudaFree", 1_500, correlation=2_000_000 + 10 * number + index)
                r.call("cudaMalloc", 2_000, correlation=1_100_000 + number)
            r.allocation(5_000_000_000, full, 81_000_000_000)
            parts.backward(r, 12, 60_000, "fp16")
            parts.adamw(r, 1_200)
            r.allocation(-8_000_000_000, full - 8_000_000_000, 81_000_000_000)
            r.sync()
    return r


def memory_near_limit() -> Recording:
    """Activations fill the device; nothing else is wrong."""
    r = Recording(A100, seed=16, profile_memory=1)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            r.allocation(60_000_000_000, 79_500_000_000, 82_000_000_000)
            parts.forward(r, 24, 60_000, "fp16")
            parts.backward(r, 24, 120_000, "fp16")
            parts.adamw(r, 1_200)
            r.allocation(-60_000_000_000, 19_500_000_000, 82_000_000_000)
    r.sync()
    return r


def garbage_collection() -> Recording:
    """Python's collector stops the loop in every step: a large heap of small objects."""
    r = Recording(A100, seed=17, with_stack=1)
    for number in range(STEPS):
        with r.step(number + 3), r.function("train.py(80): main"):
            parts.loader(r, 60)
            parts.upload(r)
            parts.forward(r, 12, 3_000, "fp16")
            with r.function("train.py(92): keep_history"), r.function("<built-in function collect>"):
                r.work(14_000)
            parts.backward(r, 12, 6_000, "fp16")
            parts.adamw(r, 600)
            r.sync()
    return r


def autotuning_inside() -> Recording:
    """Inductor benchmarks its kernels in the first recorded step."""
    r = Recording(A100, seed=18)
    for number in range(STEPS):
        with r.step(number + 1):
            parts.loader(r, 60)
            parts.upload(r)
            with r.annotation("Torch-Compiled Region: 0/0"):
                if number == 0:
                    with r.annotation("CachingAutotuner.benchmark_all_configs (dynamo_timed)"):
                        for _ in range(40):
                            r.launch("triton_red_fused_add_native_layer_norm_3", 60, driver=True)
                            r.sync("cudaDeviceSynchronize")
                            r.work(3_000)
                for index in range(60):
                    with r.op(f"triton_poi_fused_add_{index % 9}", 8):
                        r.launch(f"triton_poi_fused_add_{index % 9}", 30, driver=True)
                    with r.op("aten::mm", 8, **{"Input type": ["c10::Half"] * 2}):
                        r.launch(parts.GEMM["fp16"], 300)
            parts.backward(r, 12, 40_000, "fp16")
            parts.adamw(r, 600)
            r.sync()
    return r


def cudnn_benchmark_inside() -> Recording:
    """`cudnn.benchmark` tries its algorithms in the first recorded step, and waits for each inside of
    the convolution."""
    r = Recording(A100, seed=19)
    for number in range(STEPS):
        with r.step(number):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(30):
                with (
                    r.op("aten::conv2d", 2),
                    r.op("aten::convolution", 2),
                    r.op("aten::_convolution", 3),
                    r.op("aten::cudnn_convolution", 10, **{"Input type": ["c10::Half"] * 2}),
                ):
                    if number == 0:
                        for _ in range(6):
                            r.launch("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 500)
                            r.sync("cudaEventSynchronize")
                            r.work(150)
                    r.launch("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc", 500)
            parts.backward(r, 12, 45_000, "fp16")
            parts.adamw(r, 600)
            r.sync()
    return r


def unfused_attention() -> Recording:
    """Attention as bmm, softmax, bmm over 2,048 positions."""
    r = Recording(A100, seed=20)
    q, scores = [256, 2048, 64], [256, 2048, 2048]
    half = "c10::Half"
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(12):
                parts.linear(r, 600, "fp16")
                with r.op("aten::bmm", 5, **{"Input Dims": [q, [256, 64, 2048]], "Input type": [half] * 2}):
                    r.launch(parts.GEMM["fp16"], 500)
                with (
                    r.op("aten::softmax", 3),
                    r.op(
                        "aten::_softmax",
                        4,
                        **{"Input Dims": [scores, [], []], "Input type": [half, "Scalar", "Scalar"]},
                    ),
                ):
                    r.launch(
                        "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 11>",
                        900,
                    )
                with r.op("aten::bmm", 5, **{"Input Dims": [scores, q], "Input type": [half] * 2}):
                    r.launch(parts.GEMM["fp16"], 500)
                parts.linear(r, 600, "fp16")
            with r.backward():
                for _ in range(12):
                    for name, us in (
                        ("Addmm", 1_000),
                        ("Bmm", 1_000),
                        ("Softmax", 1_200),
                        ("Bmm", 1_000),
                        ("Addmm", 1_000),
                    ):
                        with r.op(
                            f"autograd::engine::evaluate_function: {name}Backward0", 4, **{"Fwd thread id": 1}
                        ):
                            word = {
                                "Addmm": "aten::mm",
                                "Bmm": "aten::bmm",
                                "Softmax": "aten::_softmax_backward_data",
                            }
                            shapes = {
                                "Addmm": dims_mm(),
                                "Bmm": [[256, 2048, 2048], q],
                                "Softmax": [scores, scores, [], []],
                            }
                            with r.op(
                                word[name], 4, **{"Input Dims": shapes[name], "Input type": [half] * 2}
                            ):
                                r.launch(
                                    parts.GEMM["fp16"] if name != "Softmax" else "softmax_backward_kernel", us
                                )
            parts.adamw(r, 1_200)
    r.sync()
    return r


def dims_mm() -> list[list[int]]:
    """Shapes of a product of a linear layer's backward."""
    return [[1024, 8192], [8192, 1024]]


def graph_network() -> Recording:
    """Messages between nodes: a softmax over neighbours and batched products that are no attention."""
    r = Recording(A100, seed=21)
    half = "c10::Half"
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(12):
                parts.linear(r, 900, "fp16")
                with r.op(
                    "aten::bmm",
                    5,
                    **{"Input Dims": [[64, 300, 128], [64, 128, 128]], "Input type": [half] * 2},
                ):
                    r.launch(parts.GEMM["fp16"], 700)
                with r.op(
                    "aten::_softmax", 4, **{"Input Dims": [[64, 300, 32], [], []], "Input type": [half]}
                ):
                    r.launch(
                        "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 5>",
                        500,
                    )
                parts.linear(r, 900, "fp16")
            parts.backward(r, 12, 70_000, "fp16")
            parts.adamw(r, 1_200, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def conversions_of_layout() -> Recording:
    """A bf16 network of convolutions in NCHW: cuDNN turns everything to NHWC and back."""
    r = Recording(H100, seed=22)
    there = (
        "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>"
    )
    back = (
        "void cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, true, false>"
    )
    convolution = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(50):
                with (
                    r.op("aten::conv2d", 2),
                    r.op("aten::convolution", 2),
                    r.op("aten::_convolution", 3),
                    r.op("aten::cudnn_convolution", 9, **{"Input type": ["c10::BFloat16"] * 2}),
                ):
                    for kernel, us in ((there, 60), (convolution, 300), (back, 60)):
                        r.launch(kernel, us, driver=kernel == convolution)
            with r.backward():
                for _ in range(50):
                    with (
                        r.op(
                            "autograd::engine::evaluate_function: ConvolutionBackward0",
                            4,
                            **{"Fwd thread id": 1},
                        ),
                        r.op("aten::convolution_backward", 12, **{"Input type": ["c10::BFloat16"] * 3}),
                    ):
                        for kernel, us in ((there, 60), (convolution, 600), (back, 60)):
                            r.launch(kernel, us)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def recurrent() -> Recording:
    """cuDNN's LSTM in half precision: long kernels, no convolutions; its weights are transposed on the way."""
    r = Recording(A100, seed=23)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with r.op("aten::lstm", 6), r.op("aten::_cudnn_rnn", 20, **{"Input type": ["c10::Half"] * 3}):
                for _ in range(60):
                    r.launch("void elemWiseRNNcell<__half, __half, __half, (cudnnRNNMode_t)2>", 90)
                    r.launch(parts.GEMM["fp16"], 240)
            with (
                r.backward(),
                r.op(
                    "aten::_cudnn_rnn_backward", 20, **{"Input type": ["c10::Half"] * 3, "Fwd thread id": 1}
                ),
            ):
                for _ in range(60):
                    r.launch("void LSTM_elementWise_bp1<__half, __half, float>", 90)
                    r.launch(parts.GEMM["fp16"], 480)
            parts.adamw(r, 600, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def cloned_everywhere() -> Recording:
    """A V100 in half precision whose model clones tensors a thousand times a step."""
    r = Recording(V100, seed=24)
    half = "c10::Half"
    for number in range(5):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for index in range(929):
                with (
                    r.op("aten::clone", 3, **{"Input Dims": [[512, 1024]], "Input type": [half]}),
                    r.op("aten::copy_", 4),
                ):
                    r.copy("DtoD", 12_000_000, gbs=600)
                if index % 2 == 0:
                    with r.op(
                        "aten::mm", 6, **{"Input Dims": [[512, 1024], [1024, 1024]], "Input type": [half] * 2}
                    ):
                        r.launch("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn", 80)
            parts.backward(r, 12, 62_000, "fp16")
            parts.adamw(r, 1_200)
    r.sync()
    return r


def slow_first_step() -> Recording:
    """The profiler was started too early: the first step fills caches, the others are as usual."""
    r = Recording(A100, seed=25)
    for number in range(6):
        with r.step(number):
            parts.loader(r, 90)
            parts.upload(r)
            if number == 0:
                r.work(420_000)
            parts.forward(r, 12, 25_000, "fp16")
            parts.backward(r, 12, 50_000, "fp16")
            parts.adamw(r, 1_200, kernel=parts.FUSED_ADAM)
            r.sync()
    return r


def many_pointwise() -> Recording:
    """A bf16 model whose activations are written as chains of elementwise operators."""
    r = Recording(H100, seed=26)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(24):
                parts.linear(r, 500)
                for name, kernel in (
                    ("mul", parts.MUL),
                    ("add", parts.ADD),
                    ("pow", parts.MUL),
                    ("tanh", parts.GELU),
                    ("mul", parts.MUL),
                    ("add", parts.ADD),
                    ("mul", parts.MUL),
                ):
                    parts.pointwise(r, f"aten::{name}", kernel, 120)
            with r.backward():
                for _ in range(24):
                    with r.op("autograd::engine::evaluate_function: MulBackward0", 3, **{"Fwd thread id": 1}):
                        for _ in range(7):
                            parts.pointwise(r, "aten::mul", parts.MUL, 130)
                    with (
                        r.op(
                            "autograd::engine::evaluate_function: AddmmBackward0", 3, **{"Fwd thread id": 1}
                        ),
                        r.op("aten::mm", 5, **{"Input type": ["c10::BFloat16"] * 2}),
                    ):
                        r.launch(parts.GEMM["bf16"], 1_000)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def silent_host() -> Recording:
    """Python computes something for 40 ms between the steps' few launches, and no stack says what."""
    r = Recording(A100, seed=27)
    for number in range(STEPS):
        with r.step(number + 3):
            parts.upload(r)
            parts.forward(r, 12, 12_000, "fp16")
            parts.backward(r, 12, 24_000, "fp16")
            r.sync("cudaStreamSynchronize")
            r.work(40_000)
            parts.adamw(r, 600, kernel=parts.FUSED_ADAM)
    r.sync()
    return r
