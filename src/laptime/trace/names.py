"""Families of kernels and operators, recognised by their names.

Every family is a function of texts that returns one bool each; `rows` applies it to a column of names, so
that each distinct name is looked at once. Names tell what somebody called a thing, not what it does: each
family says when it lies."""

import csv
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from laptime.trace.columns import Index, Mask

Family = Callable[[Sequence[str]], Mask]


def rows(texts: Sequence[str], column: Index, family: Family) -> Mask:
    """Return which rows of a column (indices into texts, -1 for none) name a member of the family."""
    return codes(texts, column, family) > 0


def codes(texts: Sequence[str], column: Index, code: Callable[[Sequence[str]], Mask | Index]) -> Index:
    """Per row of a column what `code` makes of its name; 0 for rows without one."""
    used = np.flatnonzero(np.bincount(column + 1)[1:])
    of_text = np.zeros(len(texts) + 1, np.int32)  # the last is for -1
    of_text[used] = code([texts[index] for index in used.tolist()])
    return of_text[column]


def matching(pattern: str | re.Pattern[str]) -> Family:
    """Names in which a regular expression is found."""
    search = re.compile(pattern).search
    return _family(lambda text: search(text) is not None)


def _holding(words: str, but: str = "") -> Family:
    """Names that contain one of the words, in any case, and none of the excluded ones."""
    wanted, unwanted = words.split(), but.split()

    def holds(text: str) -> bool:
        low = text.lower()
        return any(word in low for word in wanted) and not any(word in low for word in unwanted)

    return _family(holds)


def _family(belongs: Callable[[str], bool]) -> Family:
    """Several tables ask about the same names: each is looked at once."""
    known = lru_cache(1 << 16)(belongs)
    return lambda texts: np.fromiter(map(known, texts), bool, len(texts))


is_nccl = _holding("nccl rccl")  # kernels whose name holds nccl or rccl: what "comm" is in other tools
is_communication = _holding(
    "nccl rccl oneccl hccl mscclpp multimem symm_mem symmetric_memory nvshmem deep_ep userbuffers"
    " cross_device_reduce oneshot one_shot twoshot two_shot quickreduce quick_reduce allreduce all_reduce"
    " allgather all_gather reducescatter reduce_scatter alltoall all_to_all all2all internode intranode",
    but="warpallreduce warp_all_reduce blockallreduce block_all_reduce quadallreduce quad_all_reduce",
)
"""Kernels that talk to other ranks: NCCL and RCCL of all ages (ncclKernel_*, ncclDevKernel_*), oneCCL,
MSCCL++, symmetric-memory and multimem kernels, custom all-reduces (vLLM's, one-shot ...), and DeepEP.

Lies when: a library hides a collective inside a fused kernel whose name does not say so."""
is_tensor_core_eligible_plugin = matching(
    r"^(aten::(_convolution|conv[123]d|conv_tbc|conv_transpose[123]d|convolution|cudnn_convolution(_transpose)?"
    r"|cudnn_convolution(_transpose)?_backward(_weight|_input)?|prelu|addmm_?|addmv|addr|matmul|mm|mv|linear"
    r"|addbmm|baddbmm|bmm|chain_matmul|linalg_multi_dot|_thnn_fused_(lstm|gru)_cell|(lstm|gru)_cell"
    r"|rnn_(tanh|relu)_cell)|BmmBackward0|CudnnConvolution(Transpose)?Backward|M[mv]Backward"
    r"|Add(m[mv]|bmm)Backward)$"
)
"""Operators that could use tensor cores: exactly the TensorBoard plugin's names, which end with torch 1.9."""
_later_eligible = matching(
    r"^(aten::(convolution_backward|(cudnn|miopen|mkldnn|slow|thnn)_?\w*conv\w*|_conv\w*_backward"
    r"|_?scaled_dot_product\w*|_(flash|efficient|cudnn)_attention\w*|_scaled_(grouped_)?mm|_int_mm|_grouped_mm"
    r"|_addmm_activation|inner|linear_backward|_cudnn_rnn\w*|miopen_rnn\w*|lstm|gru)"
    r"|(Convolution|Addmm|Mm|Bmm|Baddbmm|Linear|ScaledDotProduct\w*)Backward\d+)$"
)


def is_tensor_core_eligible(texts: Sequence[str]) -> Mask:
    """Operators that could use tensor cores: the plugin's names and those of later torch, attention included.

    Lies when: shapes or dtypes leave no choice (odd sizes, float64 before Ampere)."""
    return is_tensor_core_eligible_plugin(texts) | _later_eligible(texts)


is_dataloader = matching(
    r"^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#"
    r"|^(MultiDevice)?IteratorGetNext\w*(::DoCompute)?$"
)
"""Waiting for a batch: `enumerate(DataLoader)#....__next__`, `enumerate(DataPipe)#...`; `IteratorGetNext` of
tf.data.

Lies when: a loader of one's own, or DALI, has other names."""
is_input_stage = matching(r"^(Iterator|MakeIterator)::|^Prefetch(Produce|Consume)$")
"""Stages of a tf.data pipeline, most of which run ahead of the loop on threads of their own."""
is_launch = matching(r"^(cuda|hip|cu|mtia|xpu)\w*Launch\w*(Kernel|ExC)|GraphLaunch")
"""Runtime and driver calls that launch kernels or graphs of them."""
is_graph_launch = matching("GraphLaunch")
is_driver_overhead = matching(
    r"(?i)^(lazy function loading|runtime triggered module loading|driver compiler|command buffer full|uvm)"
)
"""Work of the driver that CUPTI records as overhead: the program has it without a profiler, too."""
is_compilation = matching(r"\(dynamo_timed\)$|torch/_dynamo/(convert_frame|eval_frame)\.py.*_compile")
"""torch.compile at work: PyTorch marks it from 2.5 on; Python functions tell it before."""
is_autotuning = matching(r"(?i)autotun|benchmark_all_configs|do_bench|benchmark_gpu|(cudnn|miopen)Find")
"""Kernels are tried to keep the fastest: Triton, Inductor, cuDNN and MIOpen by their own ranges."""
is_collection = matching(r"(?i)^<built-in (function|method) collect\b|\bgc\.collect\b|^(python )?gc$")
"""Python's garbage collector: called by the program, or as `record_python_gc_info` marks it."""
is_preprocessing = matching(
    r"(?i)image_processing|image_transforms|feature_extraction|tokenization_|processing_utils\.py"
    r"|torchvision/(transforms|io)|(^|/)PIL/|ImagingCore|(^|/)cv2/|albumentations|(^|/)(librosa|soundfile|decord)/"
    r"|torchaudio/(functional|transforms|_backend)|torchcodec|data/_utils/(collate|fetch)\.py|\bpreprocess(ing)?\b"
)
"""Samples are decoded, resized, normalised or tokenised on the host: libraries that do nothing else.

Lies when: a library resizes on the device; then its operators launch, and the device is not idle."""
is_optimizer = matching(r"^Optimizer\.(step|zero_grad)#")
"""What an optimizer does: `Optimizer.step#AdamW.step`."""
is_fusible = matching(
    r"elementwise_kernel|^triton_(poi|red|per)_|reduce_kernel|layer_?norm|LayerNorm|rms_?norm|RMSNorm|softmax"
    r"|SoftMax|CatArray|multi_tensor_apply|index_elementwise|(?i:dropout)|GammaBeta|native::.*[cC]opy"
)
"""Kernels that compute elementwise, reduce or copy: what a compiler fuses, those of Triton's poi, red, per
included.

Lies when: a library names its own elementwise kernels otherwise; they are then left out."""
_STEP = re.compile(r"^ProfilerStep#(\d+)$")
is_step = matching(_STEP.pattern)  # `ProfilerStep#N`: `profiler.step()` was called


def step_number(text: str) -> int:
    """N of `ProfilerStep#N`."""
    match = _STEP.match(text)
    return int(match[1]) if match else 0


is_collective = matching(r"^(nccl|rccl|gloo|mpi|ucc|xccl|ccl|hccl|oneccl):")
"""Host ranges of all collectives of a process group, point-to-point and coalesced ones, too."""
is_host_collective = matching(r"^(gloo|mpi|ucc):")
"""Those that the host carries out itself; the others only launch a kernel."""
_QUALIFIER = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\b[A-Za-z_]\w*::(?=[\w(<~{])")


def short(name: str, width: int = 80) -> str:
    """A kernel's name for a table: the C++ signature without return type, namespaces and parameters, at most
    `width` characters."""
    signature = _QUALIFIER.sub("", name).replace("> >", ">>")
    begin, end = _declarator(signature)
    text = signature[begin:end] or name
    return text if len(text) <= width else text[: width - 1] + "…"


def _declarator(signature: str) -> tuple[int, int]:
    """Return where the name (with template arguments) begins and ends in `type name<...>(parameters)`.

    Parameters open directly behind the name; `Memcpy HtoD (Pageable -> Device)` has none."""
    depth, begin = 0, 0
    for index, character in enumerate(signature):
        if character in "<{":
            depth += 1
        elif character in ">}":
            depth -= 1
        elif depth == 0 and character == " ":
            begin = index + 1
        elif depth == 0 and character == "(" and index > begin:
            return begin, index
    return 0, len(signature)


# Which library a kernel comes from, and whether it computes on tensor or matrix cores: a table of patterns
# (`data/kernel_families.csv`), each with its source; the first that matches has the kernel. Where a family
# has kernels of both kinds, words in their names tell (`_MATRIX_WORDS`). One of no family counts as unknown,
# and its time is reported, for nothing tells what it does. Lies when: a library names a kernel like another
# one's; a Tensile kernel (`Cijk_*`) without matrix instructions counts unless its name has a thread tile.


class KernelFamily(NamedTuple):
    """One row of the table."""

    name: str  # of the library, and of what it does
    matrix: str  # yes, no, or words: those in the name tell whether it computes on tensor or matrix cores
    pattern: str  # a regular expression that is found in the names, in any case
    source: str  # where such names come from


_TABLE = Path(__file__).parent.parent.joinpath("data", "kernel_families.csv").read_text("utf-8")
FAMILIES = tuple(KernelFamily(**row) for row in csv.DictReader(_TABLE.splitlines()))
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
_OWN = re.compile(
    r"^(void )?\w+\((const )?(float|double|int|unsigned|long|char|__half|half|u?int\d+_t)( const)? ?\*"
)
"""A plain function of pointers to numbers: somebody's own kernel, whatever it is called. Libraries have
namespaces, templates or structs of parameters, and names without parameters."""
_PATTERNS = [(re.compile(family.pattern, re.IGNORECASE).search, family) for family in FAMILIES]


@lru_cache(1 << 16)
def family(name: str) -> KernelFamily | None:
    """The row of the table that has this kernel; None for one of an unknown family."""
    return None if _OWN.match(name) else next((row for found, row in _PATTERNS if found(name)), None)


def name_of(kernel: str) -> str:
    """The name of its family; "" for one of an unknown family."""
    row = family(kernel)
    return row.name if row else ""


@lru_cache(1 << 16)
def _uses(name: str) -> bool:
    row = family(name)
    if row is not None and row.matrix != "words":
        return row.matrix == "yes"
    low = "" if _OWN.match(name) else name.lower()
    words = any(word in low for word in _MATRIX) and not any(word in low for word in _SCALAR)
    return words and not _SCALAR_UNITS.search(name)


def uses_tensor_cores(texts: Sequence[str]) -> Mask:
    """Kernels that compute on tensor cores (Volta to Blackwell) or matrix cores (AMD)."""
    return np.fromiter(map(_uses, texts), bool, len(texts))


def unknown(texts: Sequence[str]) -> Mask:
    """Kernels of no family in the table, and without a word in their names that tells."""
    return np.fromiter((family(text) is None and not _uses(text) for text in texts), bool, len(texts))
