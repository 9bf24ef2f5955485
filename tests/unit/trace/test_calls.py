"""The tree of calls: exact sums, one node a name below the same callers, kernels below what launched them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fixtures import traces
from laptime.records.profile import CallTree
from laptime.records.run import Run
from laptime.reports.formats import folded, format_of, speedscope
from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables.timeline import UNLAUNCHED, calls
from laptime.trace.view import View
from laptime.verbs.trace import trace

Event = dict[str, Any]


def host(name: str, start: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": start, "dur": dur, "args": args}


def kernel(name: str, start: float, dur: float, correlation: int) -> Event:
    args = {"device": 0, "stream": 7, "correlation": correlation}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def step(number: int, start: float) -> list[Event]:
    """train() > forward > aten::mm > a launch, and a pause of 10 us in train() that nothing explains."""
    return [
        host(f"ProfilerStep#{number}", start, 100, "user_annotation"),
        host("train.py(9): train", start + 1, 90, "python_function", **{"Python id": number * 2}),
        host("nn.Module: Net_0", start + 2, 78, "python_function", **{"Python id": number * 2 + 1}),
        host("aten::mm", start + 5, 50),
        host("cudaLaunchKernel", start + 10, 20, "cuda_runtime", correlation=number),
        kernel("gemm", start + 40, 30, number),
    ]


def tree_of(events: list[Event]) -> CallTree:
    found = calls(view(events))
    assert found is not None
    return found


def view(events: list[Event]) -> View:
    return profile.view(reader.parse(json.dumps({"traceEvents": events}).encode()))


def paths(tree: CallTree) -> dict[str, tuple[int, int, int]]:
    """(calls, own ns of the host, of the device) by names from the root."""
    written: list[str] = []
    for above, name in zip(tree.parent, tree.name_index, strict=True):
        written.append(f"{written[above]}/{tree.names[name]}" if above >= 0 else tree.names[name])
    columns = zip(tree.calls, tree.host_ns, tree.device_ns, strict=True)
    return dict(zip(written, columns, strict=True))


def test_steps_are_merged_and_kernels_lie_below_their_launch() -> None:
    found = paths(tree_of([*step(1, 0), *step(2, 100), *step(3, 200)]))
    root = "thread 1/train.py(9): train"
    module = f"{root}/nn.Module: Net"
    launch = f"{module}/aten::mm/cudaLaunchKernel"
    assert found == {
        "thread 1": (0, 0, 0),
        root: (3, 3 * 12_000, 0),
        module: (3, 3 * 28_000, 0),
        f"{module}/aten::mm": (3, 3 * 30_000, 0),
        launch: (3, 3 * 20_000, 0),
        f"{launch}/gemm": (3, 0, 3 * 30_000),
    }


def test_what_is_not_launched_in_the_steps_has_a_root_of_its_own() -> None:
    found = paths(tree_of([*step(1, 0), *step(2, 100), kernel("stray", 150, 7, 99)]))
    assert found[f"{UNLAUNCHED}/stray"] == (1, 0, 7_000)


def test_small_calls_count_for_what_called_them() -> None:
    few = [host(f"aten::tiny_{at}", 40 + at * 0.1, 0.05) for at in range(50)]
    events = [host("ProfilerStep#1", 0, 100, "user_annotation"), host("aten::big", 1, 90), *few]
    cut = calls(view(events), most=2)
    assert cut is not None
    assert cut.left_out == 50
    assert paths(cut) == {"thread 1": (0, 0, 0), "thread 1/aten::big": (51, 90_000, 0)}


def test_a_range_that_outlasts_its_caller_is_cut_to_it() -> None:
    events = [host("ProfilerStep#1", 0, 100, "user_annotation"), host("outer", 0, 50), host("inner", 40, 30)]
    found = paths(tree_of(events))
    assert found["thread 1/outer"] == (1, 40_000, 0)
    assert found["thread 1/outer/inner"] == (1, 10_000, 0)


@pytest.mark.parametrize("name", traces.names())
def test_sums_are_exact_on_every_real_trace(name: str) -> None:
    settled, _ = profile.apart(profile.view(reader.read(traces.path(name))))
    tree, device = calls(settled), settled.trace.device
    if tree is None:
        return
    begin, end = settled.window
    worked = np.minimum(device.end, end) - np.maximum(device.start, begin)
    assert sum(tree.device_ns) == int(worked.clip(0).sum())
    assert min(tree.host_ns) >= 0
    assert all(above < at for at, above in enumerate(tree.parent))


@pytest.fixture(scope="module")
def run() -> Run:
    return trace([traces.COMMITTED / "h100_bert_small.json.gz"])


def test_collapsed_stacks_have_all_time(run: Run) -> None:
    assert run.profile is not None
    tree = run.profile.calls
    assert tree is not None
    lines = [line.rpartition(" ") for line in folded.render(run).splitlines()]
    for side, own in (("host", tree.host_ns), ("device", tree.device_ns)):
        assert sum(int(ns) for stack, _, ns in lines if stack.startswith(f"{side};")) == sum(own)
    assert any(stack.endswith("aten::addmm;cuLaunchKernel") for stack, _, _ in lines)


def test_speedscope_has_a_profile_of_the_host_and_one_of_the_device(run: Run) -> None:
    document = json.loads(speedscope.render(run))
    frames = document["shared"]["frames"]
    assert {"name": "run_action", "file": "moca/library/model_hub/entry_point.py", "line": 106} in frames
    for shown in document["profiles"]:
        assert len(shown["samples"]) == len(shown["weights"])
        assert shown["endValue"] == sum(shown["weights"]) > 0
        assert max(max(stack) for stack in shown["samples"]) < len(frames)
    assert [shown["name"] for shown in document["profiles"]] == ["host", "device"]


@pytest.mark.parametrize(
    ("name", "format"), [("x.speedscope.json", "speedscope"), ("x.json", "json"), ("a.b.folded", "folded")]
)
def test_the_longest_suffix_chooses_the_report(name: str, format: str, tmp_path: Any) -> None:
    assert format_of(tmp_path / name) == format
