"""Families of kernels and operators, told by their names.

Every family is a function of texts that returns one bool each; `rows` applies it to a column of names, so
that each distinct name is looked at once. Names tell what somebody called a thing, not what it does: each
family says when it lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from laptime.trace.columns import Index, Mask

Family = Callable[[Sequence[str]], Mask]


def rows(texts: Sequence[str], column: Index, family: Family) -> Mask:
    """Which rows of a column (indices into texts, -1 for none) name a member of the family."""
    used = np.flatnonzero(np.bincount(column[column >= 0], minlength=1)).tolist()
    member = np.zeros(len(texts) + 1, bool)  # the last is for -1
    member[used] = family([texts[index] for index in used])
    return member[column]


def _matching(pattern: str, flags: int = re.IGNORECASE) -> Family:
    search = re.compile(pattern, flags).search

    def family(texts: Sequence[str]) -> Mask:
        return np.fromiter((search(text) is not None for text in texts), bool, len(texts))

    return family


is_nccl = _matching("nccl|rccl")
"""Kernels whose name contains nccl or rccl: what "comm" is in other tools."""

is_communication = _matching(
    r"nccl|rccl|oneccl|\bccl_|hccl|mscclpp?|multimem|symm_mem|symmetric_memory|nvshmem|deep_ep|userbuffers"
    r"|cross_device_reduce|(one|two)_?shot|quick_?reduce"
    r"|(?<!warp)(?<!warp_)(?<!block)(?<!block_)(?<!quad)(?<!quad_)all_?reduce"
    r"|all_?gather|reduce_?scatter|all_?(to|2)_?all"
)
"""Kernels that talk to other ranks: NCCL and RCCL of all ages (ncclKernel_*, ncclDevKernel_*), oneCCL,
MSCCL++, symmetric-memory and multimem kernels, custom all-reduces (vLLM's cross_device_reduce, one-shot ...).

Lies when: a library hides a collective inside a fused kernel whose name does not say so.
"""

_PLUGIN_TENSOR_CORES = (
    r"h884|s884|h1688|s1688|hmma|i8816|16816|dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1"
    r"|conv2d_c1_k1|direct_group|xmma_implicit_gemm|xmma_sparse_conv|xmma_warp_specialized_implicit_gemm"
    r"|xmma_gemm|xmma_sparse_gemm|c1688"
)
uses_tensor_cores_plugin = _matching(_PLUGIN_TENSOR_CORES, 0)
"""Exactly the TensorBoard plugin's list, which ends with Ampere."""

_has_matrix_name = _matching(
    _PLUGIN_TENSOR_CORES
    + r"|[a-z]884|[a-z]1688|[hidq]mma|xmma_|wmma|gmma|tcgen05|nvjet|tensorop_|(class|mma)tensorop"
    r"|sm\d+_mma|sm\d+_\d+x\d+x\d+_|mainloopsm(90|1\d\d)"  # CUTLASS 3
    r"|flash_?(attn|attention|fwd|bwd|fprop|dgrad)|flash::|fmha|sdpa|flashinfer.*(prefill|mla)"  # attention
    r"|marlin|deep_gemm|fp8_gemm_kernel|scaled_mm_kernel"
    # AMD:
    r"|cijk_|mfma|\battn_fwd|\bbwd_kernel_d[kq]|ck_tile.*gemm|gemm_xdl|gridwise_.*xdl|igemm_.*gtcx"
)
_has_scalar_name = _matching(
    r"[fd]fma|simt|fmha_cutlass[fb]_f32_.*_sm(50|70|75)\b|fmha_cutlass.*_sm50\b"
    r"|dot_do_o|ogradoto|ograddoto|convert_dk?[qv]|convertqgrad|splitkv_combine|flashattnfwdcombine"
    r"|cijk_.*_tt\d+_\d+|postgsu|betaonly|sdpa_.*(convert|reduc)"
)


def uses_tensor_cores(texts: Sequence[str]) -> Mask:
    """Kernels that compute on tensor cores (Volta to Blackwell) or matrix cores (AMD): `nvjet`, `gmma`,
    `hmma`, `16816`, CUTLASS tensorop, xmma but its `ffma`, flash and fused attention, `Cijk_*` and MFMA.

    Lies when: Triton kernels say nothing of `tl.dot` in their names and count as not using them; a Tensile
    kernel (`Cijk_*`) without matrix instructions counts unless its name has a thread tile (`_TT4_4`).
    """
    return _has_matrix_name(texts) & ~_has_scalar_name(texts)


is_tensor_core_eligible = _matching(
    r"^(aten::(_convolution|conv[123]d|conv_tbc|conv_transpose[123]d|convolution|cudnn_convolution(_transpose)?"
    r"|cudnn_convolution(_transpose)?_backward(_weight|_input)?|prelu|addmm_?|addmv|addr|matmul|mm|mv|linear"
    r"|addbmm|baddbmm|bmm|chain_matmul|linalg_multi_dot|_thnn_fused_(lstm|gru)_cell|(lstm|gru)_cell"
    r"|rnn_(tanh|relu)_cell)|BmmBackward0|CudnnConvolution(Transpose)?Backward|M[mv]Backward"
    r"|Add(m[mv]|bmm)Backward)$",
    0,
)
"""Operators that could use tensor cores: exactly the plugin's names.

Lies when: shapes or dtypes leave no choice (odd sizes, float64 before Ampere).
"""

is_dataloader = _matching(r"^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#", 0)
"""Waiting for a batch: `enumerate(DataLoader)#....__next__`, `enumerate(DataPipe)#...`.

Lies when: a loader of one's own, or tf.data or DALI, has other names.
"""

_STEP = re.compile(r"^ProfilerStep#(\d+)$")
is_step = _matching(_STEP.pattern, 0)
"""`ProfilerStep#N`: `profiler.step()` was called."""


def step_number(text: str) -> int:
    """N of `ProfilerStep#N`."""
    found = _STEP.match(text)
    return int(found[1]) if found else 0


is_collective_plugin = _matching(r"^(nccl|gloo):(broadcast|reduce|all_reduce|all_gather|reduce_scatter)$", 0)
"""Host ranges that the plugin calls communication."""

is_collective = _matching(r"^(nccl|rccl|gloo|mpi|ucc|xccl|ccl|hccl|oneccl):", 0)
"""Host ranges of all collectives of a process group, point-to-point and coalesced ones, too."""

is_host_collective = _matching(r"^(gloo|mpi|ucc):", 0)
"""Those that the host carries out itself; the others only launch a kernel."""

_QUALIFIER = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\b[A-Za-z_]\w*::(?=[\w(<~{])")


def short(name: str, width: int = 80) -> str:
    """A kernel's name for a table: the C++ signature without return type, namespaces and parameters, at most
    `width` characters.
    """
    signature = _QUALIFIER.sub("", name).replace("> >", ">>")
    begin, end = _declarator(signature)
    text = signature[begin:end] or name
    return text if len(text) <= width else text[: width - 1] + "…"


def _declarator(signature: str) -> tuple[int, int]:
    """Where the name (with template arguments) begins and ends in `type name<...>(parameters)`.

    Parameters open directly behind the name; `Memcpy HtoD (Pageable -> Device)` has none.
    """
    depth, begin = 0, 0
    for at, character in enumerate(signature):
        if character in "<{":
            depth += 1
        elif character in ">}":
            depth -= 1
        elif depth == 0 and character == " ":
            begin = at + 1
        elif depth == 0 and character == "(" and at > begin:
            return begin, at
    return 0, len(signature)
