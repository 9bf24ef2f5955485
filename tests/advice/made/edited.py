"""Traces of others with one thing changed: what is planted must come first, what means nothing
must change nothing.

Each edit takes the decoded file and changes it in place. Written when the rules were done, as `drawn.py`.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fixtures import traces

Document = dict[str, Any]


def read(name: str) -> Document:
    """A file of `fixtures.traces`, decoded."""
    document: Document = json.loads(gzip.decompress(traces.path(name).read_bytes()))
    return document


def write(document: Document, path: Path) -> None:
    """As a profiler would."""
    path.write_bytes(gzip.compress(json.dumps(document).encode(), 1, mtime=0))


def _timed(document: Document) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event.get("ph") == "X"]


def _on_device(event: dict[str, Any]) -> bool:
    return event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")


def _steps(document: Document) -> list[dict[str, Any]]:
    return [
        each for each in _timed(document) if each["name"].startswith("ProfilerStep#") and not _on_device(each)
    ]


# What means nothing


def shuffled(document: Document) -> None:
    """Events in another order."""
    random.Random(0).shuffle(document["traceEvents"])


def later(document: Document) -> None:
    """Another day."""
    for event in document["traceEvents"]:
        if isinstance(event.get("ts"), int | float):
            event["ts"] += 86_400e6


def twice_the_metadata(document: Document) -> None:
    """Names of processes and threads stand there twice."""
    document["traceEvents"] += [event for event in document["traceEvents"] if event.get("ph") == "M"]


def other_process(document: Document) -> None:
    """Another number of the process."""
    numbers = {event["pid"] for event in _timed(document) if event.get("cat") == "cpu_op"}
    for event in document["traceEvents"]:
        if event.get("pid") in numbers:
            event["pid"] = 77_000


def foreign_events(document: Document) -> None:
    """Counters and instants of another tool in between."""
    at = _timed(document)[0]["ts"]
    document["traceEvents"] += [
        {"ph": "C", "name": "temperature", "pid": 1, "tid": 1, "ts": at + number, "args": {"C": 50}}
        for number in range(50)
    ]


# What is planted


def without_device(document: Document) -> None:
    """The host alone."""
    document["traceEvents"] = [event for event in document["traceEvents"] if not _on_device(event)]


def half_of_the_kernels(document: Document) -> None:
    """Every second kernel was lost, its launch was not."""
    kernels = [event for event in _timed(document) if event.get("cat") == "kernel"]
    lost = {id(event) for event in kernels[::2]}
    document["traceEvents"] = [event for event in document["traceEvents"] if id(event) not in lost]


def waits_for_data(document: Document) -> None:
    """Before each step a loader without workers takes as long as the step does."""
    steps = sorted(_steps(document), key=lambda event: event["ts"])
    if not steps:
        host = [event for event in _timed(document) if event.get("cat") == "cpu_op"]
        begin = min(event["ts"] for event in host)
        length = max(event["ts"] + event["dur"] for event in _timed(document)) - begin
        steps = [{"ts": begin, "dur": length, "pid": host[0]["pid"], "tid": host[0]["tid"], "name": ""}]
    for step in reversed(steps):
        begin, length = step["ts"], step["dur"]
        for event in document["traceEvents"]:
            if isinstance(event.get("ts"), int | float) and event["ts"] >= begin and event is not step:
                event["ts"] += length
        step["dur"] += length
        wait = {"name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "args": {}}
        wait |= {"ph": "X", "cat": "user_annotation", "pid": step["pid"], "tid": step["tid"]}
        document["traceEvents"].append(wait | {"ts": begin + 1, "dur": length - 2})


def slow_host(document: Document) -> None:
    """The host takes eight times as long for everything, the device as long as before."""
    first = min(event["ts"] for event in _timed(document))
    launches = {}
    for event in _timed(document):
        correlation = event.get("args", {}).get("correlation")
        if not _on_device(event):
            if correlation is not None:
                launches[correlation] = event["ts"]
            event["ts"] = first + 8 * (event["ts"] - first)
            event["dur"] *= 8
    free: dict[Any, float] = {}
    works = [event for event in _timed(document) if _on_device(event)]
    for event in sorted(works, key=lambda event: event["ts"]):
        launched = launches.get(event.get("args", {}).get("correlation"))
        asked = first + 8 * ((launched if launched is not None else event["ts"]) - first) + 40
        event["ts"] = max(asked, free.get(event.get("tid"), 0.0))
        free[event.get("tid")] = event["ts"] + event["dur"]


class Edit(NamedTuple):
    """An edit: findings that may come first, None where it is what came first before."""

    change: Callable[[Document], None]
    first: tuple[str, ...] | None


EDITS = {
    "in another order": Edit(shuffled, None),
    "a day later": Edit(later, None),
    "metadata twice": Edit(twice_the_metadata, None),
    "another process": Edit(other_process, None),
    "events of another tool": Edit(foreign_events, None),
    "without the device": Edit(without_device, ("host-only", "not-recorded")),
    "half of the kernels": Edit(half_of_the_kernels, ("incomplete",)),
    "waits for data": Edit(waits_for_data, ("num-workers",)),
    "a slow host": Edit(slow_host, ("host-bound",)),
}
FILES = ("h100_bert_small.json.gz", "mi300_vit.json.gz", "h100_vit.json.gz")
