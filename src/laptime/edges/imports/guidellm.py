"""guidellm's JSON report (`--output kind=json`, version 2): one run a file, a case a benchmark.

Latencies count from the time that guidellm had scheduled, which its own tables do not. What it calls time per
output token counts the first token, too; here it does not."""

from pathlib import Path
from typing import Any

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run

TOOL = "guidellm"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    known = isinstance(document, dict) and "benchmarks" in document
    return known and "guidellm_version" in (document.get("metadata") or {})


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file."""
    metadata, benchmarks = document["metadata"], document["benchmarks"]
    machine = _records.environment(os=metadata.get("platform"), python=metadata.get("python_version"))
    tool = f"{TOOL} {metadata['guidellm_version']}"
    cases = [_case(tool, benchmark) for benchmark in benchmarks]
    started = _records.moment(min(float(benchmark["start_time"]) for benchmark in benchmarks))
    return [_records.run(tool, path, cases, started=started, machine=machine)]


def _case(tool: str, benchmark: dict[str, Any]) -> Case:
    config = benchmark["config"]
    strategy, backend = config["strategy"], config["backend"]
    axes: dict[str, Axis] = {"arrivals": str(strategy["type_"])}
    if strategy.get("rate"):
        axes["rate"] = float(strategy["rate"])
    elif strategy.get("streams"):
        axes["concurrency"] = int(strategy["streams"])
    requests = benchmark["requests"]
    return _records.level(
        tool,
        str(backend.get("model") or backend.get("target") or "unknown"),
        axes,
        [_request(each) for each in requests["successful"]],
        seconds=float(benchmark["duration"]),
        failed=len(requests.get("errored") or []),
    )


def _request(request: dict[str, Any]) -> _records.Request:
    """A request; a stream ends with its last token, as it does for the other tools."""
    timings = request["info"]["timings"]
    due, sent = timings.get("targeted_start"), timings["request_start"]
    first = timings.get("first_token_iteration")
    end = timings.get("last_token_iteration") or timings["request_end"]
    return _records.Request(
        end - sent,
        first - sent if first is not None else None,
        int(request["output_tokens"] or 0),
        sent - due if due is not None else None,
    )
