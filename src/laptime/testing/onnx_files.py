"""Small ONNX files to try a backend on; needs the package onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Dims = list[int | str]


def save(
    path: Path,
    *,
    dims: Dims | None = None,
    opset: int = 17,
    ir: int = 8,
    dtype: type = np.float32,
    scale: float = 1.0,
) -> Path:
    """A convolution (3 to 4 channels, 3 x 3), a mean over the image, and a matrix product with 5 columns."""
    import onnx
    from onnx import helper, numpy_helper

    dims = ["N", 3, 8, 8] if dims is None else dims
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    generator = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> Any:
        values = generator.standard_normal(shape).astype(dtype) * dtype(scale)
        return numpy_helper.from_array(values.astype(dtype), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, dims)],
        [helper.make_tensor_value_info("y", kind, [dims[0], 5])],
        [weights("w", 4, 3, 3, 3), weights("m", 4, 5)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.save(model, str(path))
    return path


def tokens(path: Path) -> Path:
    """Whole numbers of an unnamed length, looked up in a table of 2 rows."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = numpy_helper.from_array(np.eye(2, dtype=np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "lookup",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [table],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


FLOPS = 2 * (8 * 8 * 4 * 27 + 4 * 5)
"""Of one image: 8 x 8 places, 4 channels of 27 weights each; 4 x 5 of the product."""
