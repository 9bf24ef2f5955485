"""Operators that by convention are no work: what they do is neither counted nor missed.

Elementwise operations, sums and other reductions, normalisations, softmax, pooling, interpolation, lookups,
losses, random numbers, sorting, copies. They are told here, and whatever is not is doubted: an operator that
this list does not know makes a count incomplete, a new one of torch's, too, until somebody has looked at it.

Lies when: a model is made of little else; its elementwise operations then are its work.
"""

from __future__ import annotations

import re
from typing import Any

_FAMILIES = re.compile(
    # elementwise, where torch's tags do not say so
    r"(add|mul|cat)(_relu)?(_scalar)?(_relu)?|abs|rsub|floor_divide|heaviside|gcd|lcm|polar|complex|eq|ne|ge|gt|le|lt"
    r"|(relu|leaky_relu|rrelu_with_noise|prelu|prelu_kernel|elu|celu|gelu|silu|mish|glu|sigmoid|log_sigmoid)6?(_forward)?"
    r"|relu6|hard(swish|sigmoid|tanh|shrink)|soft(plus|shrink)|threshold|clamp|nan_to_num|thnn_fused_\w+_cell(_backward_impl)?"
    r"|foreach_(?!mm)\w+|amp_\w+|fused_(adam\w*|sgd|adagrad|dropout|sdp_choice|rms_norm|moving_avg\w*)"
    # sums, and what else makes few numbers of many
    r"|sum|nansum|mean|var|std|(var|std)_mean|prod|max|min|amax|amin|aminmax|argmax|argmin|median|nanmedian|mode"
    r"|all|any|trace|dist|norm|native_norm|renorm|logsumexp|linalg_vector_norm|count_nonzero|bincount|hist\w+"
    r"|(log)?cum\w+|segment_reduce|((cudnn|miopen|native|quantized)_)?(batch|layer|group|instance|rms)_norm\w*"
    r"|weight_norm_interface|(safe_|log_|masked_|sparse_|sparse_log_)?softmax|\w+_loss\w*|binary_cross_entropy\w*"
    # pooling, interpolation, lookups
    r"|\w*(pool[123]d|pad[123]d|pad_nd)\w*|upsample\w+|(cudnn_)?grid_sampler\w*|(cudnn_)?affine_grid\w*|im2col|col2im"
    r"|pixel_(un)?shuffle|channel_shuffle|embedding\w*|(ps_)?roi_\w+|nms"
    # random numbers
    r"|transform_bias_rescale_qkv|(native_)?dropout|rand\w*|bernoulli|multinomial|normal|uniform|exponential|log_normal|geometric|poisson|cauchy"
    r"|philox_\w+|cudnn_init_dropout_state"
    # sorting, picking, joining, copying, making, asking
    r"|sort|argsort|topk|kthvalue|unique\w*|nonzero\w*|searchsorted|bucketize|isin|where|equal|allclose|is_\w+|item"
    r"|index\w*|gather|scatter\w*|select\w*|slice\w*|narrow|masked_\w+|take\w*|put|diag\w*|block_diag"
    r"|tri[lu](_indices)?|concat|stack|chunk_cat|split\w*|unbind|repeat\w*|tile|roll|flip|rot90|unfold\w*|as_strided\w*"
    r"|resize\w*|set|view\w*|reshape\w*|permute|transpose|t|expand|squeeze|unsqueeze|detach|alias|lift\w*|pin_memory"
    r"|to_\w+|\w*copy\w*|clone|contiguous|fill\w*|zeros?(_like)?|ones(_like)?|full\w*|empty\w*|new_\w+|eye|arange|range"
    r"|linspace|logspace|\w+_window|scalar_tensor|sparse_(coo|compressed)_tensor\w*|sparse_dim|dense_dim|nnz|coalesced?"
    r"|values|\w*indices|has_\w+|local_scalar_dense|(functional_)?assert\w*|sym_\w+|linalg_check_errors|record_stream"
    r"|validate_\w+|nested_\w+|pack_padded_sequence|pad_packed_sequence|cudnn_rnn_flatten_weight"
    # to and from whole numbers
    r"|(de|fake_)?quantize(_\w+)?|quantized_max_pool\w+|q_\w+|int_repr|choose_qparams\w*|make_quantized_cell_params\w*"
    r"|(conv|linear|embedding)\w*_(un|pre)pack(?!ed)\w*"
)
_SILENT = ("prim", "prims", "profiler", "c10d", "c10d_functional", "_c10d_functional", "rngprims")
_KNOWN = ("aten", "quantized", "torchvision", "quantized_decomposed")


def is_light(operator: Any) -> bool:
    """Whether an operator's call (an OpOverload) is none of the work that is counted."""
    import torch

    tags = getattr(operator, "tags", ())
    if torch.Tag.pointwise in tags or getattr(operator, "is_view", False):
        return True
    namespace, _, name = str(getattr(operator, "overloadpacket", operator)).partition(".")
    if namespace in _SILENT:
        return True
    stem = re.sub(r"^_?(unsafe_)?|(_backward(_data|_out)?|_out)?_?$", "", name)
    return namespace in _KNOWN and _FAMILIES.fullmatch(stem) is not None
