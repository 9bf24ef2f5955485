"""AIPerf's `profile_export.jsonl` (every request) and `profile_export_aiperf.json` (what it makes of them).

The first has no model and no rate in it, the second no requests: there a median stands for them. The clock
of both starts when a credit was issued, and a credit waits for a free place: what is late before that is in
neither file."""

from pathlib import Path
from typing import Any

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run

TOOL = "AIPerf"


def matches(document: Any) -> bool:
    """Whether this looks like one of the two."""
    if isinstance(document, list):
        first = document[0] if document else None
        return isinstance(first, dict) and "credit_issued_ns" in (first.get("metadata") or {})
    return isinstance(document, dict) and {"aiperf_version", "request_latency"} <= document.keys()


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file."""
    if isinstance(document, list):
        measured = [
            line for line in document if line["metadata"].get("benchmark_phase", "profiling") == "profiling"
        ]
        answered = [line for line in measured if not line.get("error")]
        begin = min(line["metadata"]["request_start_ns"] for line in measured)
        end = max(line["metadata"]["request_end_ns"] for line in measured)
        case = _records.level(
            TOOL,
            "unknown",
            {},
            [_request(line) for line in answered],
            seconds=(end - begin) / 1e9,
            failed=len(measured) - len(answered),
            since="from when its credit was issued, which may be later than when it was due",
        )
        return [_records.run(TOOL, path, [case], started=_records.moment(begin / 1e9))]
    tool = f"{TOOL} {document['aiperf_version']}"
    started = _records.moment(document["start_time"])
    return [_records.run(tool, path, [_summary(tool, document)], started=started)]


def _request(line: dict[str, Any]) -> _records.Request:
    metadata, metrics = line["metadata"], line["metrics"]
    first = metrics.get("time_to_first_token")
    return _records.Request(
        _value(metrics["request_latency"]),
        _value(first) if first else None,
        int((metrics.get("output_sequence_length") or {"value": 0})["value"]),
        (metadata["request_start_ns"] - metadata["credit_issued_ns"]) / 1e9,
    )


def _value(metric: dict[str, Any], key: str = "value") -> float:
    """A time in seconds. Raises ValueError: it is in an unknown unit."""
    factors = {"ms": 1e-3, "sec": 1.0, "s": 1.0, "us": 1e-6, "ns": 1e-9}
    if metric["unit"] not in factors:
        raise ValueError(f"a time is in {metric['unit']}")
    return float(metric[key]) * factors[metric["unit"]]


def _summary(tool: str, document: dict[str, Any]) -> Case:
    config = document.get("input_config") or {}
    models = (config.get("models") or {}).get("items") or [{}]
    phase: dict[str, Any] = next(
        (each for each in config.get("phases") or [] if each.get("kind") == "profiling"), {}
    )
    axes: dict[str, Axis] = {key: phase[key] for key in ("rate", "concurrency") if phase.get(key)}
    latency = "effective_latency" if "effective_latency" in document else "request_latency"
    medians = {"latency": latency, "load/ttft": "time_to_first_token", "load/tpot": "inter_token_latency"}
    return _records.summary(
        tool,
        str(models[0].get("name") or "unknown"),
        axes,
        {tag: _value(document[name], "p50") for tag, name in medians.items() if name in document},
        note="the median; requests are in profile_export.jsonl",
        answered=document["request_count"]["avg"],
        tokens=(document.get("total_output_tokens") or {"avg": 0})["avg"],
        seconds=_value(document["benchmark_duration"], "avg"),
        failed=sum(int(each.get("count", 0)) for each in document.get("error_summary") or []),
    )
