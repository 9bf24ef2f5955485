"""Records some calls of one folder under its runtime's own profiler; imports no laptime.

    python -I process.py FOLDER CALLS.npz tensors|arrays RUNTIME PLACE SECONDS

RUNTIME is one of `RECORDERS`, PLACE the file that it writes, SECONDS how long calls may be recorded for. A
recorder is made before the folder is loaded. The answer is one message in JSON: see `main`."""

import json
import runpy
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WARM_UP, BLOCKS, MOST_IN_BLOCK, MOST = 3, 5, 10, 10
"""Calls before any other; blocks of calls whose CPU time is taken; calls in a block and recorded at most."""


def seconds_of(call: Callable[[], Any], calls: int) -> float:
    """Return the seconds of one call, the mean of so many."""
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - began) / calls


def busy(call: Callable[[], Any], calls: int) -> float:
    """Cores that work in a call on average: CPU seconds of this process over wall seconds.

    The largest of some blocks: another program that takes a core away makes it smaller, none larger."""
    shares = []
    for _ in range(BLOCKS):
        cpu = time.process_time()
        seconds = seconds_of(call, calls)
        shares.append((time.process_time() - cpu) / calls / seconds)
    return max(shares)


Record = Callable[[Callable[..., Any], Sequence[Any], int], dict[str, Any]]
"""Record so many calls of a model with these inputs; seconds of one, and what runs them."""


def pytorch(place: Path) -> Record:
    """A trace of Kineto."""

    def record(model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        import torch

        options: dict[str, Any] = {"activities": [torch.profiler.ProfilerActivity.CPU], "record_shapes": True}
        with torch.profiler.profile(**options):
            model(*inputs)  # the first start of the profiler takes part of the first call's time
        with torch.profiler.profile(**options) as profiler:
            seconds = seconds_of(lambda: model(*inputs), calls)
        profiler.export_chrome_trace(str(place))
        return {
            "seconds": seconds,
            "threads": torch.get_num_threads(),
            "recorder": f"torch.profiler {torch.__version__}",
        }

    return record


def onnx_runtime(place: Path) -> Record:
    """Read ONNX Runtime's recording; the calls are the last ones. Sessions are profiled from their start."""
    import onnxruntime

    sessions, made = list[Any](), onnxruntime.InferenceSession

    def make_session(path: Any, options: Any = None, *rest: Any, **more: Any) -> Any:
        options = more.pop("sess_options", options) or onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(place.with_suffix(""))
        session = made(path, options, *rest, **more)
        sessions.append((session, options.intra_op_num_threads))
        return session

    def record(model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        seconds = seconds_of(lambda: model(*inputs), calls)
        session, threads = sessions[-1]
        shutil.move(session.end_profiling(), place)
        return {
            "seconds": seconds,
            "threads": threads,
            "recorder": f"ONNX Runtime {onnxruntime.__version__}, enable_profiling",
        }

    onnxruntime.InferenceSession = make_session
    return record


def openvino(place: Path) -> Record:
    """The nodes that ran, with microseconds of all recorded calls; models are compiled with counters."""
    import openvino

    made, compiled_of = list[Any](), openvino.Core.compile_model

    def compile_model(core: Any, model: Any, device: Any = None, config: Any = None) -> Any:
        compiled = compiled_of(core, model, device, {**(config or {}), "PERF_COUNT": "YES"})
        return _Compiled(compiled, made)

    def record(model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        compiled, request = made[-1]
        seconds = 0.0
        spent, executed = Counter[str](), Counter[str]()
        for _ in range(calls):
            seconds += seconds_of(lambda: model(*inputs), 1)
            for each in request.get_profiling_info():
                if str(each.status).endswith("EXECUTED"):
                    spent[each.node_name] += round(each.real_time.total_seconds() * 1e6)
                    executed[each.node_name] += 1
        nodes = [
            {**_node(node), "calls": executed[name], "us": spent[name]}
            for node in compiled.get_runtime_model().get_ordered_ops()
            if (name := node.get_friendly_name()) in executed
        ]
        place.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
        return {
            "seconds": seconds / calls,
            "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
            "recorder": f"OpenVINO {openvino.__version__.partition('-')[0]}, PERF_COUNT",
        }

    openvino.Core.compile_model = compile_model
    return record


class _Compiled:
    """A compiled model that keeps the requests that are made of it."""

    def __init__(self, compiled: Any, made: list[Any]) -> None:
        self._compiled, self._made = compiled, made

    def create_infer_request(self) -> Any:
        request = self._compiled.create_infer_request()
        self._made.append((self._compiled, request))
        return request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _node(node: Any) -> dict[str, Any]:
    about = node.get_rt_info()
    return {
        "op": str(about["layerType"].value),
        "type": str(about["runtimePrecision"].value),
        "inputs": [list(each.get_shape()) for each in node.inputs()],
        "outputs": [list(output.get_shape()) for output in node.outputs()],
    }


RECORDERS = {"pytorch": pytorch, "onnx_runtime": onnx_runtime, "openvino": openvino}
"""Each is called before the folder is loaded, with the file that it writes, and gives what records."""


def main() -> None:
    """Load the folder, call it, record some calls; tell calls, seconds, threads, busy and recorder."""
    arm = runpy.run_path(str(HERE.parent / "arm_process.py"))
    parent = arm["channel_to_parent"]()
    folder, recorded, kind, runtime, place, seconds = sys.argv[1:]
    record = RECORDERS[runtime](Path(place))
    model = arm["load_model"](Path(folder))
    inputs = arm["inputs_in"](Path(recorded), as_arrays=kind == "arrays")[0]
    seconds_of(lambda: model(*inputs), WARM_UP - 1)
    call = max(seconds_of(lambda: model(*inputs), 1), 1e-6)
    each = float(seconds) / 2 / call
    working = busy(lambda: model(*inputs), max(1, min(MOST_IN_BLOCK, int(each / BLOCKS))))
    calls = max(1, min(MOST, int(each)))
    about = {"calls": calls, "busy": working, **record(model, inputs, calls)}
    parent.send(json.dumps(about).encode())


if __name__ == "__main__":
    main()
