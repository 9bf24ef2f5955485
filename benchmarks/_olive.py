"""What Microsoft Olive makes of a model, found by its own search: run by an interpreter that has olive-ai.

    python _olive.py FOLDER float32|int8 SECONDS

FOLDER has `module.pt`, a pickled module, and `inputs.npz`, the tensors of a call by name. The search is one
of Olive's workflows: its conversion, its optimisers of ONNX graphs, for int8 its quantisation calibrated on
that call, and threads and graph level of ONNX Runtime's session; TPE picks by the mean of 20 calls after 10,
which are Olive's defaults. FOLDER/pick.json then says what was picked and how it is to be run, or why there
is nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"

DATA = "recorded_call"
QUANTIZATION = ("quant_mode", "quant_format", "precision", "per_channel", "reduce_range")
"""What is told of a quantisation."""
SAMPLES = 64
"""Sets of passes and settings that the search tries at most."""


def load_module(model_path: str) -> Any:
    """The module, called by position; Olive finds this function by its name.

    Of models of transformers, which give a dict and fill in arguments themselves, its exporter makes nothing.
    """
    import torch

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = torch.load(model_path, weights_only=False)
            self.names = list(inputs_of(Path(model_path).parent))

        def forward(self, *tensors: Any) -> Any:
            made = self.module(**dict(zip(self.names, tensors, strict=True)))
            return tuple(made.values()) if isinstance(made, dict) else made

    return Positional().eval()


def inputs_of(folder: Path) -> dict[str, Any]:
    """Tensors of the call by name."""
    import numpy as np
    import torch

    with np.load(folder / "inputs.npz") as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def register(folder: Path) -> None:
    """Make the call a dataset of Olive's: that of calibration and of its latencies."""
    from olive.data.component.dataset import BaseDataset
    from olive.data.registry import Registry

    class Call(BaseDataset):  # type: ignore[misc]
        def __init__(self) -> None:
            self.given = inputs_of(folder)

        def __len__(self) -> int:
            return 1

        def __getitem__(self, at: int) -> Any:
            if at:
                raise IndexError(at)
            return self.given, 0

    Registry.register_dataset(DATA)(lambda **options: Call())


def mend() -> None:
    """Olive 0.13.0 updates its records of models by an alias that pydantic refuses: no search would end."""
    from olive.engine.footprint import FootprintNode

    def update(node: Any, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(node, "model_config_data" if name == "model_config" else name, value)

    FootprintNode.update = update


def passes(precision: str, cpus: int) -> dict[str, Any]:
    """Those that Olive may search over, in order; a list is a choice."""
    made: dict[str, Any] = {
        "conversion": {"type": "OnnxConversion", "use_dynamo_exporter": False, "target_opset": 17},
        "peephole": {"type": "OnnxPeepholeOptimizer"},
        "transformer": {"type": "OrtTransformersOptimization", "opt_level": 0},
    }
    if precision == "int8":
        made["quantization"] = {"type": "OnnxQuantization", "data_config": DATA, "calibrate_method": "MinMax"}
    made["session"] = {
        "type": "OrtSessionParamsTuning",
        "data_config": DATA,
        "providers_list": "CPUExecutionProvider",
        "intra_thread_num_list": sorted({1, max(1, cpus // 2), cpus}),
        "inter_thread_num_list": 1,
        "execution_mode_list": 0,
        "opt_level_list": [1, 2, 99],
    }
    return made


def workflow(folder: Path, precision: str, seconds: float) -> dict[str, Any]:
    """Olive's configuration: all passes searched together, by the mean latency of calls."""
    inputs = inputs_of(folder)
    latency = {"name": "latency", "type": "latency", "sub_types": [{"name": "avg", "priority": 1}]}
    sampler = {"sampler": "tpe", "sampler_config": {"max_samples": SAMPLES, "seed": 0}}
    return {
        "input_model": {
            "type": "PyTorchModel",
            "model_path": str(folder / "module.pt"),
            "model_loader": load_module,
            "io_config": {
                "input_names": list(inputs),
                "input_shapes": [list(each.shape) for each in inputs.values()],
                "input_types": [str(each.dtype).removeprefix("torch.") for each in inputs.values()],
                "output_names": ["output_0"],
            },
        },
        "systems": {
            "here": {
                "type": "LocalSystem",
                "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
            }
        },
        "data_configs": [
            {
                "name": DATA,
                "type": "DataContainer",
                "load_dataset_config": {"type": DATA},
                "dataloader_config": {"type": "no_auto_batch_dataloader"},
            }
        ],
        "evaluators": {"latency": {"type": "OnnxEvaluator", "metrics": [{**latency, "data_config": DATA}]}},
        "passes": passes(precision, len(os.sched_getaffinity(0))),
        "search_strategy": {"execution_order": "joint", "max_time": round(seconds), **sampler},
        "evaluator": "latency",
        "evaluate_input_model": False,
        "host": "here",
        "target": "here",
        "cache_dir": str(folder / "cache"),
        "output_dir": str(folder / "output"),
        "log_severity_level": 4,
    }


def picked(folder: Path, precision: str, seconds: float) -> dict[str, Any]:
    """The best model of Olive's search, and how it is run."""
    from olive import run

    register(folder)
    mend()
    best = run(workflow(folder, precision, seconds)).get_best_candidate()
    if best is None:
        return {"failed": "no set of passes gave a model"}
    session = best.get_inference_config().get("session_options") or {}
    nodes = json.loads((folder / "output" / "footprint.json").read_text())
    words = [*chosen(nodes, best.model_id), *(f"{name}={value}" for name, value in session.items())]
    return {
        "file": best.model_path,
        "session": session,
        "picked": ", ".join(words),
        "metrics": best.metrics_value,
    }


def chosen(nodes: dict[str, Any], model_id: str | None) -> list[str]:
    """What Olive's footprint says of the quantisation that a model came from; nothing without one."""
    words: list[str] = []
    while model_id and (node := nodes.get(model_id)):
        if "quantization" in (node["from_pass"] or "").lower():
            options = {name: node["pass_run_config"].get(name) for name in QUANTIZATION}
            words += [f"{name}={value}" for name, value in options.items() if isinstance(value, bool | str)]
        model_id = node["parent_model_id"]
    return words


def main(folder: Path, precision: str, seconds: float) -> None:
    """Write pick.json."""
    began = time.monotonic()
    try:
        pick = picked(folder, precision, seconds)
    except Exception as error:
        pick = {"failed": f"{type(error).__name__}: {error}"[:300]}
    (folder / "pick.json").write_text(json.dumps({**pick, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2], float(sys.argv[3]))
