"""A model under OpenVINO. `load()` gives a callable: tensors (or arrays) in, the same kind out."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import numpy
    import openvino

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    core, of_shapes = openvino.Core(), {}

    def request(shapes: Any) -> Any:  # fixed shapes are faster, so each gets a model of its own
        graph = core.read_model(HERE / "model.xml")
        graph.reshape(dict(zip(graph.inputs, map(openvino.PartialShape, shapes), strict=True)))
        return core.compile_model(graph, "CPU", settings["properties"]).create_infer_request()

    keys = settings["outputs"]

    def model(*inputs: Any) -> Any:
        arrays = [numpy.asarray(each) for each in inputs]
        shapes = tuple(each.shape for each in arrays)
        if shapes not in of_shapes:
            of_shapes[shapes] = request(shapes)
        outputs: list[Any] = [
            numpy.array(each) for each in of_shapes[shapes].infer(arrays, share_inputs=True).to_tuple()
        ]
        if inputs and not isinstance(inputs[0], numpy.ndarray):
            import torch

            outputs = list(map(torch.from_numpy, outputs))
        if keys is None:
            return outputs[0]
        return dict(zip(keys, outputs, strict=True)) if keys else tuple(outputs)

    return model
