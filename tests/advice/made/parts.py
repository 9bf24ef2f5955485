"""What training steps and forwards are made of: operators with their launches, as eager PyTorch makes them."""

# ruff: noqa: E501  names of kernels are as long as they are

from __future__ import annotations

from fixtures.kineto import Recording

GEMM = {
    "bf16": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
    "fp16": "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    "float": "ampere_sgemm_128x64_tn",
    "volta": "volta_sgemm_128x64_tn",
    "rocm": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB1",
}
TYPES = {
    "bf16": "c10::BFloat16",
    "fp16": "c10::Half",
    "float": "float",
    "volta": "float",
    "rocm": "c10::BFloat16",
}
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
MUL = (
    "void at::native::elementwise_kernel<128, 4,"
    " at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
    "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >"
    "(at::TensorIteratorBase&)::{lambda(int)#1} >(int, at::native::gpu_kernel_impl_nocast)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4,"
    " at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const, std::array<char*, 2ul> >(int)"
)
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*)"
)
REDUCE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float,"
    " float, "
    "float>, unsigned int, float, 4, 4> >(at::native::ReduceOp)"
)
COPY = (
    "void"
    " at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}, std::array<char*, 2ul>, 4>(int)"
)
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>"
FLASH_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128>>"
)
MULTI_TENSOR = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<4>, at::native::(anonymous namespace)::PointwiseOpScalarListFunctor<float, 4,"
    " 4, 0> >"
)
FUSED_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous"
    " namespace)::FusedAdamMathFunctor<float, 4> >"
)
ZERO = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"


def dims(*shapes: list[int]) -> list[list[int]]:
    """`Input Dims` of these tensors."""
    return [list(shape) for shape in shapes]


def linear(r: Recording, us: float, kind: str = "bf16", m: int = 4096, k: int = 1024, n: int = 1024) -> None:
    """A linear layer: `aten::linear` around `aten::addmm`."""
    word = TYPES[kind]
    shapes = dims([n], [m, k], [k, n])
    with (
        r.op("aten::linear", 3),
        r.op("aten::addmm", 6, 2, **{"Input Dims": shapes, "Input type": [word] * 3}),
    ):
        r.launch(GEMM[kind], us, driver=kind == "bf16")


def pointwise(
    r: Recording, name: str, kernel: str, us: float, word: str = "c10::BFloat16", host: float = 4.0
) -> None:
    """One elementwise operator."""
    with r.op(name, host, 1.5, **{"Input Dims": dims([4096, 1024]), "Input type": [word]}):
        r.launch(kernel, us)


def block(r: Recording, us: float, kind: str = "bf16") -> None:
    """A transformer's block, forward: 70 % products, 10 % attention, the rest memory-bound."""
    word = TYPES[kind]
    pointwise(r, "aten::native_layer_norm", NORM, us * 0.03, word)
    linear(r, us * 0.25, kind)
    with r.op("aten::scaled_dot_product_attention", 4), r.op("aten::_flash_attention_forward", 8):
        r.launch(FLASH, us * 0.12)
    linear(r, us * 0.1, kind)
    pointwise(r, "aten::add", ADD, us * 0.03, word)
    pointwise(r, "aten::native_layer_norm", NORM, us * 0.03, word)
    linear(r, us * 0.19, kind)
    pointwise(r, "aten::gelu", GELU, us * 0.04, word)
    linear(r, us * 0.19, kind)
    pointwise(r, "aten::add", ADD, us * 0.02, word)


def block_backward(r: Recording, us: float, kind: str = "bf16") -> None:
    """The same, backward: two products for each."""
    for name, share in (
        ("Addmm", 0.2),
        ("Gelu", 0.04),
        ("Addmm", 0.2),
        ("NativeLayerNorm", 0.04),
        ("ScaledDotProductFlashAttention", 0.16),
        ("Addmm", 0.12),
        ("Addmm", 0.24),
    ):
        with (
            r.op(f"autograd::engine::evaluate_function: {name}Backward0", 3, 2, **{"Fwd thread id": 1}),
            r.op(f"{name}Backward0", 3, 1, **{"Fwd thread id": 1}),
        ):
            if name == "Addmm":
                for _ in range(2):
                    with r.op(
                        "aten::mm",
                        5,
                        1,
                        **{"Input Dims": dims([1024, 4096], [4096, 1024]), "Input type": [TYPES[kind]] * 2},
                    ):
                        r.launch(GEMM[kind], us * share / 2)
            elif name == "Gelu":
                pointwise(r, "aten::gelu_backward", GELU, us * share)
            elif name == "NativeLayerNorm":
                pointwise(r, "aten::native_layer_norm_backward", NORM, us * share)
            else:
                with r.op("aten::_flash_attention_backward", 8):
                    r.launch(FLASH_BACKWARD, us * share)


def forward(r: Recording, blocks: int, us: float, kind: str = "bf16") -> None:
    """All blocks and a loss."""
    for _ in range(blocks):
        block(r, us / blocks, kind)
    pointwise(r, "aten::nll_loss_forward", REDUCE, 8)


def backward(r: Recording, blocks: int, us: float, kind: str = "bf16") -> None:
    """On the engine's thread."""
    with r.backward():
        for _ in range(blocks):
            block_backward(r, us / blocks, kind)


def adamw(
    r: Recording, us: float = 400, *, kernels: int = 6, name: str = "AdamW", kernel: str = MULTI_TENSOR
) -> None:
    """A foreach or fused step: few kernels over all tensors."""
    with r.annotation(f"Optimizer.step#{name}.step"):
        r.work(60)
        for _ in range(kernels):
            with r.op("aten::_foreach_addcmul_" if kernel == MULTI_TENSOR else "aten::_fused_adamw_", 12):
                r.launch(kernel, us / kernels)
    with r.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
        r.work(20)


def single_tensor(r: Recording, name: str, tensors: int, *, each: float = 2.2) -> None:
    """A step that walks over the parameters: four operators for each."""
    with r.annotation(f"Optimizer.step#{name}.step"):
        for _ in range(tensors):
            for operator in ("aten::mul_", "aten::addcmul_", "aten::add_", "aten::addcdiv_"):
                with r.op(operator, 4, 1, **{"Input Dims": dims([768]), "Input type": ["float"]}):
                    r.launch(MUL, each)
    with r.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
        r.work(20)


def loader(r: Recording, us: float, *, workers: bool = True) -> None:
    """Waiting for the next batch."""
    kind = "MultiProcessing" if workers else "SingleProcess"
    with r.annotation(f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__"):
        r.work(us)


def upload(r: Recording, size: int = 2_000_000, *, pageable: bool = False) -> None:
    """A batch goes to the device."""
    with r.op("aten::to", 3), r.op("aten::_to_copy", 4), r.op("aten::copy_", 4):
        r.copy("HtoD", size, pageable=pageable, gbs=6 if pageable else 22)
