"""The traced program: training or inference, a server and its stage, eager, compiled or replayed from graphs.

Every fact is read off names that the program's libraries gave to what they do. Lies when: a program names its
own ranges like theirs, or a trace without annotations and stacks keeps silent about all of it."""

import re

import numpy as np

from laptime.records.profile import Workload
from laptime.trace import collectives, intervals, names, phases
from laptime.trace.columns import HostKind
from laptime.trace.tables import host_work, kernels
from laptime.trace.view import View, of_host

_SERVERS = {
    "vLLM": re.compile(r"(^|/)vllm/|^vllm::|^_C_cache_ops::|^execute_(context|model)_\d|^_ZN4vllm|vllm::"),
    "SGLang": re.compile(r"(^|/)sglang/|^sgl_kernel::|^step\[(DECODE|EXTEND|PREFILL|MIXED|TARGET)"),
    "TensorRT-LLM": re.compile(r"(^|/)tensorrt_llm/|^(trtllm|tensorrt_llm)::"),
    "Text Generation Inference": re.compile(r"(^|/)text_generation_server/"),
    "LMDeploy": re.compile(r"(^|/)lmdeploy/"),
    "an inference server": re.compile(
        r"paged_attention|reshape_and_cache|PagedKV|kv_indptr|Batch(Decode|Prefill)With", re.IGNORECASE
    ),
}
MARKED = ("nsys", "rocpd", "rocprof")
"""Formats that show of a program only what it marked: without marks of training they do not say."""
_CONTEXT = re.compile(r"execute_context_(\d+)\(\d+\)_generation_(\d+)\(")
_STEP = re.compile(r"^step\[(DECODE|EXTEND|PREFILL|MIXED|TARGET_VERIFY)")
_is_capture = names.matching(r"StreamBeginCapture")
_is_compiled = names.matching(
    r"^Torch-Compiled Region|^## Call CompiledFxGraph|^CompiledFunction|^triton_(poi|red|per|tem|mm|for)_"
    r"|torch/_inductor/"
)
_OPTIMIZER = re.compile(r"^Optimizer\.(?:step|zero_grad)#(\w+)")


def workload(view: View) -> Workload:
    """All facts of one file."""
    trace, device, launch = view.trace, view.trace.device, view.links.launch
    called = intervals.distinct(launch[launch >= 0])
    graph = np.flatnonzero(names.rows(trace.texts, of_host(trace.host.name, called), names.is_graph_launch))
    replayed = names.rows(trace.texts, of_host(trace.host.name, launch), names.is_graph_launch)
    replayed |= device.graph > 0
    training = bool(phases.find_rows(view, names.is_optimizer).any() or phases.of_autograd(view).any())
    works = trace.format not in MARKED and bool(phases.at_work(view).any())
    stage, uses = _stage(view), collectives.uses(view)
    columns = (trace.host.name, device.name)
    used = [trace.texts[row] for column in columns for row in intervals.distinct(column).tolist()]
    servers = (name for text in used for name, words in _SERVERS.items() if words.search(text))
    reductions = [use for use in uses if use.kind in ("all_reduce", "reduce_scatter") and use.in_backward]
    rows = np.flatnonzero(phases.find_rows(view, names.is_optimizer))
    match = _OPTIMIZER.match(trace.texts[trace.host.name[rows[0]]]) if len(rows) else None
    return Workload(
        kind="training" if training else "inference" if works else "unknown",
        server="" if training else next(servers, ""),
        stage=stage,
        compiled=bool(_is_compiled(used).any()),
        graph_share=float(replayed.mean()) if len(device) else 0.0,
        graph_launches=len(graph),
        launch_calls=len(called),
        loader=bool(phases.loading(view).any()),
        optimizer=match[1] if match else "",
        gradient_dtype=max(reductions, key=lambda use: use.total_ns).dtype if reductions else "",
        host_work=host_work.host_work(view),
        empty_waits=host_work.empty_waits(view),
        collectives=uses,
        fusible=kernels.fusible(view),
    )


def _stage(view: View) -> str:
    """Return the server's stage by its own ranges; "" if they do not show it."""
    host, texts = view.trace.host, view.trace.texts
    used = [texts[row] for row in intervals.distinct(host.name[host.is_call]).tolist()]
    if bool(_is_capture(used).any()):
        return "capture"
    ranges = [texts[row] for row in intervals.distinct(host.name[host.kind == HostKind.ANNOTATION]).tolist()]
    kinds = {*map(_kind_of_step, ranges)} - {""}
    return "mixed" if len(kinds) > 1 else "".join(kinds)


def _kind_of_step(text: str) -> str:
    if scheduled := _CONTEXT.match(text):
        context, generation = int(scheduled[1]), int(scheduled[2])
        return "prefill" if context and not generation else "mixed" if context else "decode"
    if step := _STEP.match(text):
        return {"DECODE": "decode", "TARGET_VERIFY": "decode", "MIXED": "mixed"}.get(step[1], "prefill")
    return ""
