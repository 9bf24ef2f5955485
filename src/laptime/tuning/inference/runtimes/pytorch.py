"""PyTorch: changes of the module, graphs of torch.export, packages that AOTInductor has compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.backends.torch.tensors import copy_inputs
from laptime.measure.recorded_calls import RecordedCalls
from laptime.tuning.inference.arm_process import first_words, leaves, names_of, to_tensors
from laptime.tuning.inference.changes import Form, ModelChange
from laptime.tuning.inference.draft import Draft, NoDraft, refusing, restructure
from laptime.tuning.optimization import Options

if TYPE_CHECKING:
    import torch

OF_PYTORCH = frozenset(
    {"inference_mode", "channels_last", "fold_batch_norm", "half_precision", "compiled", "allocator"}
    | {"tf32_on", "cuda_graphs"}
)
"""Facts of changes to PyTorch's own running, which another runtime takes away."""
LARGE = 1 << 18
"""Weights of a linear layer from which on they are narrowed: 1 MiB in float32; less lies in the caches."""
PACKING = "tile_packed_to_4d"  # of int4 weights: that of PyTorch's own kernel


def _lay_out(draft: Draft, options: Options) -> None:
    """The module's 4-d weights and the traced inputs; `tuned.py` lays out those of each call."""
    import torch

    last = torch.channels_last
    draft.module = draft.module.to(memory_format=last)
    draft.inputs = [each.contiguous(memory_format=last) if each.ndim == 4 else each for each in draft.inputs]


def _fuse(draft: Draft, options: Options) -> None:
    from torch.fx.experimental.optimization import fuse

    with refusing("torch.fx cannot trace it"):
        draft.module = fuse(draft.module)


def _capture(draft: Draft, options: Options) -> None:
    """Type and shape of each input that the graph is captured for."""
    first = RecordedCalls.load(draft.calibration)
    given = to_tensors(first.calls[0].inputs, first.types)
    draft.settings["cuda_graph"] = [[str(each.dtype), *each.shape] for each in given]


def in_precision(draft: Draft, dtype: str) -> None:
    """The module with its weights in a type of torch; floats are cast going in, and back coming out, but for
    bfloat16 if the type is float32: NumPy lacks it."""
    import torch

    own = getattr(torch, dtype)
    with torch.no_grad():
        types = [leaf.dtype for leaf in leaves(draft.module(*draft.inputs))]
    if dtype == "float32":
        types = [own if each is torch.bfloat16 else each for each in types]
        draft.inputs = [each.to(own) if each.dtype is torch.bfloat16 else each for each in draft.inputs]

    class Cast(torch.nn.Module):
        def __init__(self, module: torch.nn.Module) -> None:
            super().__init__()
            self.module = module.to(own)

        def forward(self, *given: torch.Tensor) -> Any:
            output = self.module(*(each.to(own) if each.is_floating_point() else each for each in given))
            made = [each.to(kind) for each, kind in zip(leaves(output), types, strict=True)]
            return restructure(made, names_of(output))

    draft.module = Cast(draft.module).eval()


def _narrow(draft: Draft, bits: int) -> None:
    """Large linear layers by torchao, whose tensors torch.export sees as plain ones then.
    Raises Refused: there are none, or it cannot be done."""
    import torch
    from torchao import quantization
    from torchao.utils import unwrap_tensor_subclass

    def is_large(module: Any, name: str = "") -> bool:
        return isinstance(module, torch.nn.Linear) and module.weight.numel() >= LARGE

    if not any(map(is_large, draft.module.modules())):
        raise NoDraft(f"it has no linear layer of {LARGE} weights or more")
    config: Any = quantization.Int8WeightOnlyConfig()
    if bits == 4:
        try:
            config = quantization.Int4WeightOnlyConfig(group_size=128, int4_packing_format=PACKING)
        except TypeError as error:
            raise NoDraft(f"this torchao does not know the packing {PACKING}") from error
        in_precision(draft, "bfloat16")
    with refusing("torchao cannot quantise it"):
        quantization.quantize_(draft.module, config, filter_fn=is_large)
        unwrap_tensor_subclass(draft.module)


CHANGES = [
    # `torch.inference_mode()` in place of `torch.no_grad()`. Saves version counters and view tracking:
    # microseconds an operator, so it shows in small models only.
    # Lies when: outputs are used in a computation with gradients later, which then raises.
    # Source: pytorch.org/docs, torch.autograd.grad_mode.inference_mode.
    ModelChange.row(
        "inference_mode",
        "inference mode",
        "!other_runtime",
        (0.15, 0.1, 8),
        numerics="exact",
        settings_only=True,
        settings={"inference_mode": True},
    ),
    # Weights and 4-d inputs in memory format channels_last (NHWC), which convolution kernels of CPUs prefer.
    # Lies when: operators in between give the layout up again, and every call pays for copies.
    # Source: pytorch.org/tutorials, channels last memory format.
    ModelChange.row(
        "channels_last",
        "memory format channels_last",
        "!other_runtime conv",
        (0.5, 0.3, 8),
        apply=_lay_out,
        settings={"channels_last": True},
    ),
    # Batch normalisations folded into the convolutions and linear layers before them.
    # Lies when: running statistics are not settled: folded weights then overflow or vanish.
    # Source: torch.fx.experimental.optimization.fuse; Jacob et al. 2018, section 3.2.
    ModelChange.row(
        "fold_batch_norm",
        "batch norm folded into convolutions",
        "!other_runtime conv batchnorm",
        (0.4, 0.3, 8),
        apply=_fuse,
    ),
    # All kernels of a call launched at once: a CUDA graph, captured in the first call. Inputs are copied
    # to where the graph reads them, outputs to where no later call writes. Other shapes or types run
    # without the graph.
    # Lies when: two threads call it at once: they share the graph's inputs.
    # Source: docs.pytorch.org/docs/stable/notes/cuda.html, CUDA graphs.
    ModelChange.row(
        "cuda_graphs",
        "a CUDA graph of the whole call",
        "!other_runtime cuda !varying_shapes",
        (0.7, 0.4, 8),
        apply=_capture,
    ),
    # Inductor ahead of time, weights frozen: operators fused, weights laid out for their kernels.
    # Lies when: shapes change in another dimension than the batch; such a call raises.
    # Source: pytorch.org/docs, AOTInductor; torch._inductor.config.freezing.
    ModelChange.row(
        "compiled",
        "compiled by Inductor, frozen",
        "!other_runtime gcc",
        (0.7, 0.5, 60),
        "packaged",
        holds=frozenset({"threads"}),
    ),
    # Inductor also times kernels of its own against the libraries'.
    # Lies when: the machine that serves has other caches than the one that compiled.
    # Source: torch._inductor.config.max_autotune; on CPUs torch/_inductor/codegen/cpp_gemm_template.py.
    ModelChange.row(
        "compiled_max_autotune",
        "compiled by Inductor, frozen, kernels chosen by timing",
        "!other_runtime gcc",
        (0.72, 0.4, 150),
        "packaged",
        gives=frozenset({"compiled"}),
        holds=frozenset({"threads"}),
        settings={"max_autotune": True},
    ),
    # Quantised by torchao (PT2E, calibrated on the first inputs), then compiled ahead of time by Inductor.
    # Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
    # Source: pytorch.org/tutorials, PyTorch 2 export quantization with X86 backend through Inductor.
    ModelChange.row(
        "compiled_int8",
        "int8 by torchao, compiled by Inductor",
        "!other_runtime gcc cpu",
        (0.9, 0.5, 90),
        "packaged_int8",
        rounds="int8",
        gives=frozenset({"compiled"}),
        packages=("torchao",),
        holds=frozenset({"threads"}),
    ),
    # Weights and activations in bfloat16; inputs and outputs stay float32.
    # Lies when: the CPU has no bfloat16 units and emulates them.
    # Source: oneDNN documentation, bfloat16 training and inference.
    ModelChange.row(
        "bf16",
        "bfloat16",
        "!other_runtime bf16",
        (0.8, 0.5, 8),
        rounds="bfloat16",
        apply=lambda draft, options: in_precision(draft, "bfloat16"),
    ),
    # The same in float16.
    # Lies when: a value is beyond 65,504; the outputs tell.
    # Source: oneDNN documentation, float16 with AVX512-FP16 and AMX-FP16.
    ModelChange.row(
        "fp16",
        "float16",
        "!other_runtime fp16",
        (0.8, 0.5, 8),
        rounds="float16",
        apply=lambda draft, options: in_precision(draft, "float16"),
    ),
    # Matrix products of float32 with 10 bits of mantissa, on tensor cores. PyTorch lets convolutions use
    # it by default, so only models with matrix products can gain. float16 has as many bits, and so its
    # limits.
    # Lies when: the model is bound by memory; or other code of the server counts on float32 products.
    # Source: NVIDIA A100 whitepaper; torch.set_float32_matmul_precision.
    ModelChange.row(
        "tf32",
        "TF32 matrix products",
        "!other_runtime cuda tf32 linear !half_precision",
        (2 / 3, 0.5, 8),
        numerics="precision",
        gives=frozenset({"tf32_on"}),
        apply=lambda draft, options: draft.settings.update({"precision": "float16", **draft.settings}),
        settings={"float32": "high"},
    ),
    # Weights of large linear layers in int8, a scale for each row; products and activations stay as they
    # are. A product of few rows waits for its weights: a quarter of the bytes is what it saves.
    # Lies when: calls have many items; such products are bound by arithmetic, and turning weights back
    # costs time.
    # Source: docs.pytorch.org/ao, Int8WeightOnlyConfig.
    ModelChange.row(
        "weight_only_int8",
        "weights of linear layers in int8",
        "!other_runtime cuda linear",
        (0.7, 0.3, 8),
        rounds="int8",
        packages=("torchao",),
        apply=lambda draft, options: _narrow(draft, 8),
    ),
    # In int4, a scale for every 128 of them; activations in bfloat16, which the kernels take alone.
    # Outputs are held against the limits of int8: what errs by more is refused.
    # Lies when: as `weight_only_int8`.
    # Source: docs.pytorch.org/ao, Int4WeightOnlyConfig; the packing is that of PyTorch's own kernel.
    ModelChange.row(
        "weight_only_int4",
        "weights of linear layers in int4",
        "!other_runtime cuda linear bf16",
        (0.85, 0.3, 8),
        rounds="int8",
        packages=("torchao",),
        apply=lambda draft, options: _narrow(draft, 4),
    ),
]


def write_exported(draft: Draft, folder: Path) -> None:
    """Writes model.pt2. Raises Refused: it cannot be exported."""
    import torch

    torch.export.save(graph_of(draft), folder / "model.pt2")


def graph_of(draft: Draft, *, lengths: bool = True) -> torch.export.ExportedProgram:
    """The exported model, for any batch size and length if these may vary, or for any batch size alone.
    Raises Refused: it cannot be exported."""
    import torch

    tracing: Any = torch.export
    # Of its own: tracing marks open sizes on tensors, and what failed would fail again.
    dynamic, arguments = tracing.Dim.DYNAMIC, tuple(copy_inputs(draft.inputs))
    sizes = draft.open_sizes(dynamic, lengths=lengths)
    collection = tracing.ShapesCollection()
    for tensor, named in zip(arguments, sizes, strict=True):
        if named:
            collection[tensor] = dict.fromkeys(named, dynamic)
    try:
        with torch.no_grad():
            shapes = collection.dynamic_shapes(draft.module, arguments) if any(sizes) else None
            graph = torch.export.export(draft.module, arguments, dynamic_shapes=shapes)
    except Exception as error:
        if lengths and any(map(any, draft.lengths)):
            return graph_of(draft, lengths=False)
        raise NoDraft(f"torch.export cannot trace it: {first_words(error)}") from error
    draft.settings["types"] = [str(each.dtype) for each in draft.inputs]
    held = {node.name: node.meta["val"].shape for node in graph.graph.nodes if node.op == "placeholder"}
    draft.settings["takes"] = [  # open sizes by name: a package does not see that those of one name differ
        [size if isinstance(size, int) else str(size) for size in held[name]]
        for name in graph.graph_signature.user_inputs
    ]
    return graph


def write_packaged(draft: Draft, folder: Path) -> None:
    """Writes compiled.pt2, with the weights frozen into it. Needs a C++ compiler, once.
    Raises Refused: it cannot be exported or compiled."""
    import torch
    import torch._inductor

    draft.settings["packaged"] = True
    torch.set_float32_matmul_precision(draft.settings.get("float32", "highest"))  # kernels follow it
    if threads := draft.settings.get("threads"):
        torch.set_num_threads(threads)  # the number stands in the generated code
    configs = {"freezing": True, "max_autotune": bool(draft.settings.get("max_autotune"))}
    for lengths in (True, False):
        graph = graph_of(draft, lengths=lengths)
        try:
            with torch.no_grad():
                torch._inductor.aoti_compile_and_package(
                    graph, package_path=str(folder / "compiled.pt2"), inductor_configs=configs
                )
            return
        except Exception as error:
            if not lengths or not any(map(any, draft.lengths)):
                raise NoDraft(f"it cannot be compiled: {first_words(error)}") from error


def write_packaged_int8(draft: Draft, folder: Path) -> None:
    """Writes compiled.pt2 of a graph that torchao has quantised (PT2E).
    Raises Refused: it cannot be exported, quantised or compiled."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    graph = graph_of(draft).module()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    first = RecordedCalls.load(draft.calibration)
    with refusing("torchao cannot quantise it"):
        prepared = prepare_pt2e(graph, quantizer)
        with torch.no_grad():
            prepared(*to_tensors(first.calls[0].inputs, first.types))
        draft.module = convert_pt2e(prepared)
    write_packaged(draft, folder)


_WRITERS = {"exported": write_exported, "packaged": write_packaged, "packaged_int8": write_packaged_int8}
FORMS = {
    name: Form(write=write, tuned="torch_cpu", on_cuda="torch_cuda", packages=("torch",), profiler="pytorch")
    for name, write in _WRITERS.items()
}
