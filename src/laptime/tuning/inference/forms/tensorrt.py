"""A TensorRT engine, built on the device that will run it from the model's ONNX export.

Source: docs.nvidia.com/deeplearning/tensorrt, Python API: Builder, OnnxParser, IOptimizationProfile.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import onnx
from laptime.tuning.inference.forms.exported import first_words

HANDED_BACK = ON_CUDA = "tensorrt"
NEEDS = ("torch", "tensorrt")
MOST = 4
"""Times the items of the measurement that a call may have."""


def write(draft: Draft, folder: Path) -> None:
    """Writes model.engine, and into the settings the names of what goes in and comes out, in order.

    Raises:
        Refused: it cannot be exported, or TensorRT cannot build it.
    """
    onnx.write(draft, folder)
    try:
        engine = _engine(draft, folder / "model.onnx")
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"TensorRT cannot build it: {first_words(error)}") from error
    for part in folder.glob("model.onnx*"):
        part.unlink()
    (folder / "model.engine").write_bytes(engine)


def _engine(draft: Draft, file: Path) -> bytes:
    import tensorrt
    import torch

    with torch.cuda.device(torch.device(draft.device)):
        builder = tensorrt.Builder(tensorrt.Logger(tensorrt.Logger.ERROR))
        # Types are those of the file: where that is the only way, the flag is gone.
        typed = getattr(tensorrt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = tensorrt.OnnxParser(network, tensorrt.Logger(tensorrt.Logger.ERROR))
        if not parser.parse_from_file(str(file)):
            raise Refused(f"TensorRT cannot read it: {parser.get_error(0).desc()}"[:200])
        config = builder.create_builder_config()
        config.clear_flag(tensorrt.BuilderFlag.TF32)  # on by default; its products are no float32
        config.add_optimization_profile(_shapes(builder, network, draft))
        made = builder.build_serialized_network(network, config)
    if made is None:
        raise Refused("TensorRT found no kernels for it")
    draft.settings["takes"] = [network.get_input(at).name for at in range(network.num_inputs)]
    draft.settings["gives"] = [network.get_output(at).name for at in range(network.num_outputs)]
    return bytes(made)


def _shapes(builder: Any, network: Any, draft: Draft) -> Any:
    """What the engine takes: one item and more where the batch varies, tuned for the measurement's."""
    profile = builder.create_optimization_profile()
    for at, (tensor, varies) in enumerate(zip(draft.inputs, draft.varies, strict=True)):
        usual = tuple(tensor.shape)
        least, most = [(size, *usual[1:]) if varies else usual for size in (1, MOST * usual[0])]
        profile.set_shape(network.get_input(at).name, least, usual, most)
    return profile
