"""Which library a kernel comes from, and whether it computes on tensor or matrix cores: by its name.

A table of patterns, each with its source; the first that matches has the kernel. Where a family has kernels
of both kinds, words in their names tell (`_MATRIX_WORDS`). A kernel of no family is counted as unknown, and
its time is reported, for nothing tells what it does.

Lies when: a library names a kernel like another one's; a Tensile kernel (`Cijk_*`) without matrix
instructions counts unless its name has a thread tile (`_TT4_4`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from laptime.trace.columns import Mask


class KernelFamily(NamedTuple):
    """One row of the table.

    Attributes:
        name: of the library, and of what it does.
        pattern: a regular expression that is found in the names, in any case.
        matrix: True, False, or None where words in the name tell.
        source: where such names come from.
    """

    name: str
    pattern: str
    matrix: bool | None
    source: str


FAMILIES = (
    KernelFamily(
        "communication",
        r"nccl|rccl|oneccl|hccl|mscclpp|multimem|symm_mem|symmetric_memory|nvshmem"
        r"|deep_ep|userbuffers|cross_device_reduce|(one|two)_?shot|quick_?reduce|all_?(reduce|gather)"
        r"|reduce_?scatter|all_?to_?all|all2all",
        False,
        "names.is_communication",
    ),
    KernelFamily(
        "trtllm-gen attention, its reduction", r"^fmhaReduction", False, "TensorRT-LLM fmhaReduction.cu"
    ),
    KernelFamily(
        "trtllm-gen attention", r"^fmhaSm1\d\d", True, "TensorRT-LLM trtllmGenKernels/fmha, FlashInfer"
    ),
    KernelFamily(
        "trtllm-gen matrix product",
        r"^(bmm|gemm|gemmgatedact)_(Mx)?(E\dm\d|Bfloat16|Fp16|Fp32|Tf32"
        r"|Int8)",
        True,
        "TensorRT-LLM trtllmGenKernels/{gemm,batchedGemm}",
    ),
    KernelFamily(
        "FlashAttention 4",
        r"kernel_cutlass_\w*flash_attn|flash_(fwd|bwd)_sm1\d\d",
        True,
        "Dao-AILab/flash-attention flash_attn/cute",
    ),
    KernelFamily(
        "FlashAttention 3, its reduction",
        r"flash::FlashAttn(Fwd)?(Combine|Preprocess|BwdPreprocess"
        r"|BwdPostprocess)|flash_prepare_seqlen",
        False,
        "Dao-AILab/flash-attention hopper/",
    ),
    KernelFamily("FlashAttention 3", r"FlashAttn(Fwd|Bwd)Sm\d\d", True, "Dao-AILab/flash-attention hopper/"),
    KernelFamily(
        "FlashAttention 1 and 2",
        r"flash_(fwd|bwd)|flash_attn|flash::|fmha_(fwd|bwd|d?grad)",
        None,
        "Dao-AILab/flash-attention csrc/flash_attn",
    ),
    KernelFamily(
        "FlashInfer decode",
        r"(Batch|Single)Decode\w*KVCache|MergeStates?Kernel"
        r"|VariableLengthMerge|PersistentVariableLength",
        False,
        "flashinfer attention/decode.cuh",
    ),
    KernelFamily(
        "FlashInfer",
        r"(Batch|Single)Prefill|PrefillWith\w*KVCache|BatchMLA|flashinfer::",
        None,
        "flashinfer attention/prefill.cuh, mla.cuh",
    ),
    KernelFamily(
        "Inductor pointwise and reduction",
        r"^_?triton_(poi|red|per|for|spl)_",
        False,
        "torch/_inductor/codegen/triton.py",
    ),
    KernelFamily(
        "Triton matrix product",
        r"^_?triton_(tem|mm|bmm)|^_?(p_)?matmul(_ogs)?_|^_?matmul_kernel"
        r"|fused_moe_kernel|^_w8a8_|_scaled_mm_kernel|grouped_gemm_kernel|^_?(batched_)?gemm_(a\d+w\d+|afp4)",
        True,
        "triton_kernels matmul_ogs.py, torch/_inductor/kernel, vLLM, SGLang, AITER",
    ),
    KernelFamily(
        "Triton attention, its reduction",
        r"^reduce_segments|_fwd_kernel_stage2|^_?(attn_)?bwd_preprocess",
        False,
        "vLLM triton_unified_attention.py, SGLang decode_attention.py",
    ),
    KernelFamily(
        "Triton attention",
        r"unified_attention|^_?attn_fwd|^_?fwd_kernel|^_?fwd_grouped_kernel"
        r"|^_?bwd_kernel(_d[kqv])?|chunk_prefill|prefix_prefill",
        True,
        "triton tutorial 06, vLLM triton_unified_attention.py, SGLang extend_attention.py",
    ),
    KernelFamily(
        "Tensile, before and after the product",
        r"Cijk_\w*(PostGSU|BetaOnly)|^Cijk_S[GB]_",
        False,
        "ROCm/Tensile KernelWriterConversion, KernelWriterBetaOnly",
    ),
    KernelFamily(
        "Tensile and hipBLASLt", r"(^|_)Cijk_|^Custom_Cijk|hipblaslt", None, "ROCm/Tensile, ROCm/hipBLASLt"
    ),
    KernelFamily(
        "Composable Kernel",
        r"\bck::|\bck_tile::|_ZN2ck|_ZN7ck_tile|kernel_(gemm|grouped_gemm|moe|batched)"
        r"\w*_xdl|xdlops",
        None,
        "ROCm/composable_kernel",
    ),
    KernelFamily(
        "AITER",
        r"aiter|^(f4|f8|bf16|fp8)gemm_|^fmoe_|_ZN5aiter|^mla_(dec|pfl)|^pa_(bf16|fp8)",
        None,
        "ROCm/aiter hsa/",
    ),
    KernelFamily(
        "MIOpen",
        r"miopen|igemm_(fwd|bwd|wrw)_gtcx|gfx\d+\w*(conv|gemm)|naive_conv|batched_transpose_\d",
        None,
        "ROCm/MIOpen",
    ),
    KernelFamily(
        "cuDNN",
        r"cudnn|scudnn|implicit_convolve|implicit_gemm|dgrad|wgrad|_conv1x1|winograd"
        r"|conv2d_c1_k1|convolve_|cudnn_generated|conv_depthwise|bn_(fw|bw)|nchwToNhwc|nhwcToNchw"
        r"|dgrad_1x1|LSTM_elementWise|RNN_|fft2d_[rc]2[rc]|pooling_(fw|bw)|first_layer_wgrad",
        None,
        "cuDNN 8 and 9 names",
    ),
    KernelFamily(
        "cuBLAS vector product and reduction",
        r"gemv|gemmSN_|gemmk1|splitKreduce|\bdot_kernel"
        r"|reduce_1Block|\bger_kernel|trsm|trsv|scal_kernel",
        False,
        "cuBLAS names",
    ),
    KernelFamily(
        "cuBLAS",
        r"nvjet_|xmma_|(volta|turing|ampere|maxwell|hopper|kepler|pascal)_\w*gemm"
        r"|[shdczi]\d{3,6}gemm|cublas|[sdcz]gemm_|gemm_kernel\w*bias",
        None,
        "cuBLAS 10 to 13 names",
    ),
    KernelFamily(
        "quantized matrix product",
        r"marlin|machete|deep_gemm|fp8_gemm_kernel|gemm_forward_4bit|awq_gemm"
        r"|scaled_mm|nvfp4|mxfp4",
        None,
        "vLLM csrc/quantization, deepseek-ai/DeepGEMM",
    ),
    KernelFamily("CUTLASS", r"cutlass|fmha|cute::", None, "NVIDIA/cutlass, PyTorch mem_eff_attention"),
    KernelFamily(
        "PyTorch",
        r"\bat(::|_cuda_detail)|at_native|aten::|c10::|native::|_ZN2at|(vectorized|unrolled|"
        r"elementwise)_\w*kernel|CatArrayBatchedCopy|multi_tensor_apply|softmax_warp|indexSelect|index_elementwise"
        r"|embedding_(bag|backward)|layer_norm|(Rowwise|LayerNorm|GroupNorm|RMSNorm)\w*|fill_|reduce_kernel"
        r"|krn_partial|sum_and_scatter|compute_grad_weight|distribution_|upsample|max_pool|avg_pool"
        r"|nll_loss|indexing_backward|cunn_|dropout|gatherTopK|bitonicSort|radix|fused_dropout|SubTensorOp",
        False,
        "pytorch aten/src/ATen/native/cuda",
    ),
    KernelFamily(
        "CUB and Thrust",
        r"\bcub::|thrust|DeviceScan|DeviceRadixSort|DeviceReduce|rocprim|hipcub",
        False,
        "NVIDIA/cccl, ROCm/rocPRIM",
    ),
    KernelFamily("FFT", r"cufft|rocfft|vector_fft|regular_fft|fft_(fwd|back)", False, "cuFFT, rocFFT"),
    KernelFamily(
        "vLLM, SGLang and TensorRT-LLM",
        r"vllm::|sglang|tensorrt_llm|_ZN4vllm|sgl_|rotary_embedding"
        r"|reshape_and_cache|act_and_mul|topk_softmax|moe_align|rms_?norm|routingIndices|moe::dev",
        None,
        "vLLM csrc, sgl-kernel, TensorRT-LLM cpp/tensorrt_llm/kernels",
    ),
    KernelFamily(
        "Apex, fbgemm and Transformer Engine",
        r"apex|fbgemm|transformer_engine|split_embedding|cuApply"
        r"LayerNorm|multi_tensor",
        False,
        "NVIDIA/apex, pytorch/FBGEMM, NVIDIA/TransformerEngine",
    ),
    KernelFamily(
        "copies and fills",
        r"^(__amd_rocclr|hip|cu)?_?(copy|fill|mem(cpy|set))\w*(kernel|buffer)?|^Memset|^Memcpy",
        False,
        "runtimes of CUDA and ROCm",
    ),
)

_MATRIX_WORDS = (
    "h884 s884 d884 h1688 s1688 d1688 c1688 i8816 16816 dgrad_1x1_stride_2x2 first_layer_wgrad_kernel conv1x1"
    " conv2d_c1_k1 direct_group hmma imma dmma qmma xmma_ wmma gmma tmaumma tcgen05 nvjet sm80_16x8"
    " tensorop_ classtensorop mmatensorop marlin deep_gemm fp8_gemm_kernel scaled_mm_kernel"
    " flash_attn flash_attention flashattn flash_fwd flash_bwd flash_fprop flash_dgrad flash:: fmha sdpa"
    " prefillwith batchmla attn_fwd bwd_kernel_dk bwd_kernel_dq cijk_ mfma xdl gtcx ck_tile::gemm"
    " gemm_forward_4bit f4gemm_ bf16gemm_ fp8gemm_ f8gemm_ fmoe_ mla_dec mla_pfl pa_bf16 pa_fp8"
)
_SCALAR_WORDS = (
    "ffma dfma simt dot_do_o ogradoto ograddoto convert_dq convert_dk convert_dv convertqgrad"
    " splitkv_combine fwdcombine postgsu betaonly"
)
_MATRIX, _SCALAR = _MATRIX_WORDS.split(), _SCALAR_WORDS.split()
_SCALAR_UNITS = re.compile("Cijk_.*_TT[0-9]+_[0-9]+|fmha_cutlass[FB](_f32.*_sm(50|70|75)|.*_sm50)")
_PATTERNS = [(re.compile(family.pattern, re.IGNORECASE).search, family) for family in FAMILIES]


@lru_cache(1 << 16)
def family(name: str) -> KernelFamily | None:
    """The row of the table that has this kernel; None for one of an unknown family."""
    return next((row for found, row in _PATTERNS if found(name)), None)


def name_of(kernel: str) -> str:
    """The name of its family; "" for one of an unknown family."""
    row = family(kernel)
    return row.name if row else ""


@lru_cache(1 << 16)
def _uses(name: str) -> bool:
    row = family(name)
    if row is not None and row.matrix is not None:
        return row.matrix
    low = name.lower()
    words = any(word in low for word in _MATRIX) and not any(word in low for word in _SCALAR)
    return words and not _SCALAR_UNITS.search(name)


def uses_tensor_cores(texts: Sequence[str]) -> Mask:
    """Kernels that compute on tensor cores (Volta to Blackwell) or matrix cores (AMD)."""
    return np.fromiter(map(_uses, texts), bool, len(texts))


def unknown(texts: Sequence[str]) -> Mask:
    """Kernels of no family in the table, and without a word in their names that tells."""
    return np.fromiter((family(text) is None and not _uses(text) for text in texts), bool, len(texts))
