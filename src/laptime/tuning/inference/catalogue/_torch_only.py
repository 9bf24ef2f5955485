"""What changes of PyTorch's own running share: another runtime takes them away."""

NEEDS = frozenset({"!other_runtime"})
ALL = frozenset({"inference_mode", "channels_last", "fold_batch_norm", "half_precision", "compiled"})
ALL |= {"allocator", "tf32_on", "cuda_graphs"}
"""Facts that another runtime replaces."""
