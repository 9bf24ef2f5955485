"""A TensorRT engine. `load()` gives a callable: tensors in, tensors on the device out."""

import json
from pathlib import Path
from typing import Any


def load() -> Any:
    import tensorrt
    import torch

    here = Path(__file__).resolve().parent
    settings = json.loads((here / "recipe.json").read_text())["settings"]
    device, keys, types = torch.device(settings["device"]), settings["outputs"], tensorrt.DataType
    dtypes = {types.FLOAT: torch.float32, types.HALF: torch.float16, types.BF16: torch.bfloat16}
    dtypes |= {types.INT64: torch.int64, types.INT32: torch.int32, types.BOOL: torch.bool}
    with torch.cuda.device(device):
        runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR))
        engine = runtime.deserialize_cuda_engine((here / "model.engine").read_bytes())
        context = engine.create_execution_context()

    def model(*inputs: Any) -> Any:  # one call at a time: the context holds the addresses
        with torch.cuda.device(device):
            given = [x.to(device).contiguous() for x in inputs]
            for name, x in zip(settings["takes"], given, strict=True):
                if not context.set_input_shape(name, tuple(x.shape)):
                    raise ValueError(f"{name}: the engine does not take {tuple(x.shape)}")
                context.set_tensor_address(name, x.data_ptr())
            outputs: list[Any] = []
            for name in settings["gives"]:
                shape, dtype = tuple(context.get_tensor_shape(name)), dtypes[engine.get_tensor_dtype(name)]
                outputs.append(torch.empty(shape, dtype=dtype, device=device))
                context.set_tensor_address(name, outputs[-1].data_ptr())
            context.execute_async_v3(torch.cuda.current_stream(device).cuda_stream)
        outputs = [key if key is None else outputs.pop(0) for key in keys or [*outputs]]
        if keys is None:
            return outputs[0]
        return dict(zip(keys, outputs, strict=True)) if any(keys) else tuple(outputs)

    return model
