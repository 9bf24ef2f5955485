"""`vllm bench serve --save-result --save-detailed`: one run a file, one case.

Without `--save-detailed` there are no requests in it, and a median stands for them. Older versions do not
tell how long a request waited before it was sent. `itls` are gaps between chunks, which may hold several
tokens or none, so they are not taken."""

from datetime import datetime
from pathlib import Path
from typing import Any

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run

TOOL = "vllm bench serve"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    return isinstance(document, dict) and {"model_id", "request_throughput", "num_prompts"} <= document.keys()


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file. Its time has no zone, and is taken for UTC."""
    started = _records.moment(datetime.strptime(document["date"], "%Y%m%d-%H%M%S").isoformat())
    name = str(document.get("label") or "")
    return [_records.run(TOOL, path, [_case(document)], started=started, name=name)]


def _case(document: dict[str, Any]) -> Case:
    axes: dict[str, Axis] = {}
    if document.get("request_rate") not in (None, "inf", float("inf")):
        axes["rate"] = float(document["request_rate"])
    if document.get("max_concurrency"):
        axes["concurrency"] = int(document["max_concurrency"])
    target, failed = str(document["model_id"]), int(document.get("failed") or 0)
    seconds = float(document["duration"])
    if "ttfts" in document:
        # Requests without an error; older versions wrote no latency: it is TTFT and all gaps.
        number = len(document["ttfts"])
        waited = document.get("queue_times") or [None] * number
        errors = document.get("errors") or [""] * number
        latencies = document.get("latencies") or [
            first + sum(gaps) for first, gaps in zip(document["ttfts"], document["itls"], strict=True)
        ]
        requests = [
            _records.Request(latency, first, int(output), wait)
            for latency, first, output, wait, error in zip(
                latencies, document["ttfts"], document["output_lens"], waited, errors, strict=True
            )
            if not error
        ]
        return _records.level(TOOL, target, axes, requests, seconds=seconds, failed=failed)
    medians = {"latency": "e2el", "load/ttft": "ttft", "load/tpot": "tpot"}
    return _records.summary(
        TOOL,
        target,
        axes,
        {
            tag: float(document[f"median_{name}_ms"]) / 1000
            for tag, name in medians.items()
            if f"median_{name}_ms" in document
        },
        note="the median; requests were not saved (--save-detailed)",
        answered=document["completed"],
        tokens=document["total_output_tokens"],
        seconds=seconds,
        failed=failed,
    )
