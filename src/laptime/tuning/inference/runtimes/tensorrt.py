"""TensorRT: an engine, built on the device that will run it from the model's ONNX export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laptime.tuning.inference.changes import Form, ModelChange
from laptime.tuning.inference.draft import Draft, NoDraft, refusing
from laptime.tuning.inference.runtimes.onnxruntime import write_onnx
from laptime.tuning.inference.runtimes.pytorch import OF_PYTORCH, in_precision

MOST = 4  # times the items of the measurement that a call may have
_RUNS: dict[str, Any] = {
    "gives": frozenset({"other_runtime"}),
    "conflicts": OF_PYTORCH,
    "packages": ("tensorrt", "onnx", "onnxscript"),
}
CHANGES = [
    # Lies when: a call has more than four times the items of the measurement: the engine takes no more.
    # Source: docs.nvidia.com/deeplearning/tensorrt, Python API; strongly typed networks, BuilderFlag.TF32.
    ModelChange.row("tensorrt", "TensorRT", "cuda !varying_shapes", (0.95, 0.47, 90), "tensorrt", **_RUNS),
    # The module in float16, inputs and outputs in float32.
    # Lies when: a value is beyond 65,504; the outputs tell.
    # Source: docs.nvidia.com/deeplearning/tensorrt, strongly typed networks: types are those of the ONNX
    # file.
    ModelChange.row(
        "tensorrt_fp16",
        "TensorRT in float16",
        "cuda !varying_shapes fp16",
        (0.9, 0.7, 90),
        "tensorrt",
        rounds="float16",
        as_exported=False,
        apply=lambda draft, options: in_precision(draft, "float16"),
        **_RUNS,
    ),
]


def write(draft: Draft, folder: Path) -> None:
    """Writes model.engine, and into the settings the names of what goes in and comes out, in order.

    Source: docs.nvidia.com/deeplearning/tensorrt, Python API: Builder, OnnxParser, IOptimizationProfile.

    Raises:
        Refused: it cannot be exported, or TensorRT cannot build it.
    """
    write_onnx(draft, folder)
    with refusing("TensorRT cannot build it"):
        engine = _engine(draft, folder / "model.onnx")
    for part in folder.glob("model.onnx*"):
        part.unlink()
    (folder / "model.engine").write_bytes(engine)


def _engine(draft: Draft, file: Path) -> bytes:
    import tensorrt
    import torch

    with torch.cuda.device(torch.device(draft.device)):
        builder = tensorrt.Builder(tensorrt.Logger(tensorrt.Logger.ERROR))
        # Types are those of the file: if that is the only way, the flag is gone.
        typed = getattr(tensorrt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = tensorrt.OnnxParser(network, tensorrt.Logger(tensorrt.Logger.ERROR))
        if not parser.parse_from_file(str(file)):
            raise NoDraft(f"TensorRT cannot read it: {parser.get_error(0).desc()}"[:200])
        config = builder.create_builder_config()
        config.clear_flag(tensorrt.BuilderFlag.TF32)  # on by default; its products are no float32
        config.add_optimization_profile(_shapes(builder, network, draft))
        made = builder.build_serialized_network(network, config)
    if made is None:
        raise NoDraft("TensorRT found no kernels for it")
    draft.settings["takes"] = [network.get_input(at).name for at in range(network.num_inputs)]
    draft.settings["gives"] = [network.get_output(at).name for at in range(network.num_outputs)]
    return bytes(made)


def _shapes(builder: Any, network: Any, draft: Draft) -> Any:
    """Return the engine's shapes: one item and more if the batch varies, tuned for the measurement's."""
    profile = builder.create_optimization_profile()
    for index, (tensor, varies) in enumerate(zip(draft.inputs, draft.varies, strict=True)):
        usual = tuple(tensor.shape)
        least, most = [(size, *usual[1:]) if varies else usual for size in (1, MOST * usual[0])]
        profile.set_shape(network.get_input(index).name, least, usual, most)
    return profile


FORMS = {
    "tensorrt": Form(
        write=write, tuned="tensorrt", on_cuda="tensorrt", packages=("torch", "tensorrt"), profiler="pytorch"
    )
}
