from __future__ import annotations

import json
from typing import Any

import numpy as np

from laptime.trace import stacks
from laptime.trace.columns import HostKind
from laptime.trace.reading import reader
from laptime.trace.view import View, find_steps, link


def view_of(*events: dict[str, Any]) -> View:
    trace = reader.parse(json.dumps(list(events)).encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def event(
    cat: str, name: str, ts: float, dur: float, tid: int = 1, stack: str | None = None
) -> dict[str, Any]:
    args = {} if stack is None else {"Call stack": stack}
    pid = 0 if tid == 0 else 7
    thread = {"pid": pid, "tid": tid}
    return {"ph": "X", "cat": cat, "name": name, **thread, "ts": ts, "dur": dur, "args": args}


def row(view: View, name: str, nth: int = 0) -> int:
    texts, names = view.trace.texts, view.trace.host.name
    return [at for at in range(len(names)) if texts[names[at]] == name][nth]


def test_frames_are_the_python_functions_around_an_operator_innermost_first() -> None:
    view = view_of(
        event("python_function", "train.py(9): <module>", 0, 100),
        event("python_function", "nn.Module: Linear_3", 10, 50),
        event("python_function", "<built-in method add of Tensor object at 0x74956e4de120>", 20, 10),
        event("cpu_op", "aten::add", 21, 5),
        event("cpu_op", "aten::mul", 31, 5),
        event("cpu_op", "aten::sub", 90, 5, tid=2),
    )
    inner = ["<built-in method add of Tensor object>", "nn.Module: Linear", "train.py(9): <module>"]
    assert stacks.stack_of(view, row(view, "aten::add")) == inner
    assert stacks.stack_of(view, row(view, "aten::mul")) == inner[1:]
    assert stacks.stack_of(view, row(view, "aten::sub")) == []


def test_an_operator_with_the_same_times_as_a_function_was_called_by_it() -> None:
    view = view_of(
        event("cpu_op", "aten::add", 21, 5),
        event("python_function", "a.py(1): f", 21, 5),
    )
    assert stacks.stack_of(view, row(view, "aten::add")) == ["a.py(1): f"]


def test_a_function_that_ended_before_the_operator_did_is_not_around_it() -> None:
    view = view_of(
        event("python_function", "a.py(1): f", 0, 50),
        event("python_function", "b.py(1): g", 10, 5),
        event("cpu_op", "aten::add", 12, 20),
    )
    assert stacks.stack_of(view, row(view, "aten::add")) == ["a.py(1): f"]


def test_a_call_stack_text_serves_the_calls_inside_of_its_operator_too() -> None:
    view = view_of(
        event("cpu_op", "aten::linear", 1, 20, stack="a.py(3): forward;b.py(4): <module>;"),
        event("cpu_op", "aten::mm", 2, 9, stack=""),
        event("cuda_runtime", "cudaLaunchKernel", 3, 2),
    )
    for name in ("aten::linear", "aten::mm", "cudaLaunchKernel"):
        assert stacks.stack_of(view, row(view, name)) == ["a.py(3): forward", "b.py(4): <module>"]


def test_python_functions_come_before_a_text_that_names_the_object() -> None:
    text = "<built-in method add of Tensor object at 0x7f0ed98bc100>;a.py(3): forward"
    view = view_of(
        event("python_function", "a.py(3): forward", 0, 50),
        event("python_function", "<built-in method add of Tensor object at 0x7f0ed98bc100>", 10, 20),
        event("cpu_op", "aten::add", 11, 2, stack=text),
        event("cpu_op", "aten::add", 15, 2, stack=text.replace("bc100", "ffff0")),
        event("cpu_op", "aten::add", 60, 2, stack=text),
    )
    adds = [row(view, "aten::add", nth) for nth in range(3)]
    cleaned = ["<built-in method add of Tensor object>", "a.py(3): forward"]
    assert [stacks.stack_of(view, add) for add in adds] == [cleaned, cleaned, text.split(";")]
    first, second, third = stacks.places(view, np.array(adds)).tolist()
    assert first == second != third


def test_where_a_step_began_says_nothing_of_the_operators_in_it() -> None:
    view = view_of(
        event("cpu_op", "ProfilerStep#0", 0, 50, stack="torch/profiler/profiler.py(3): step"),
        event("cpu_op", "AddBackward0", 2, 9, stack=""),
    )
    at = row(view, "AddBackward0")
    assert stacks.stack_of(view, at) == []
    assert stacks.places(view, np.array([at])).tolist() == [0]


def test_functions_on_a_thread_of_their_own_belong_to_the_thread_that_they_fit() -> None:
    view = view_of(
        event("python_function", "train.py(1): <module>", 0, 100, tid=0),
        event("python_function", "train.py(5): forward", 10, 10, tid=0),
        event("python_function", "train.py(7): backward", 30, 20, tid=0),
        event("cpu_op", "aten::mm", 11, 2, tid=1),
        event("cpu_op", "aten::sum", 25, 2, tid=1),
        *(event("cpu_op", "MmBackward0", at, 1, tid=2) for at in range(31, 41, 2)),
    )
    assert stacks.stack_of(view, row(view, "aten::mm")) == ["train.py(5): forward", "train.py(1): <module>"]
    assert stacks.stack_of(view, row(view, "MmBackward0")) == []


def test_another_threads_functions_are_left_alone_where_the_operators_have_their_own() -> None:
    view = view_of(
        event("python_function", "threading.py(655): wait", 0, 100, tid=0),
        event("python_function", "train.py(1): <module>", 0, 100, tid=1),
        event("cpu_op", "aten::mm", 11, 2, tid=1),
        event("cpu_op", "MmBackward0", 31, 2, tid=2),
    )
    assert stacks.stack_of(view, row(view, "aten::mm")) == ["train.py(1): <module>"]
    assert stacks.stack_of(view, row(view, "MmBackward0")) == []


def test_places_are_equal_exactly_where_stacks_are() -> None:
    def layer(at: float, number: int, line: int) -> list[dict[str, Any]]:
        return [
            event("python_function", f"nn.Module: Linear_{number}", at, 9),
            event("python_function", f"a.py({line}): forward", at + 1, 8),
            event("cpu_op", "aten::mm", at + 2, 3),
        ]

    view = view_of(
        *layer(0, 0, 5),
        *layer(10, 1, 5),
        *layer(20, 2, 6),
        event("cpu_op", "aten::add", 40, 2),
        event("cpu_op", "aten::add", 50, 2, stack="a.py(3): forward"),
        event("cpu_op", "aten::add", 60, 2, stack="a.py(3): forward"),
    )
    rows = np.flatnonzero(view.trace.host.kind == HostKind.OPERATOR)
    found = stacks.places(view, rows)
    texts = [tuple(stacks.stack_of(view, int(at))) for at in rows]
    assert len(set(texts)) == 4
    for at, place in enumerate(found):
        assert (place == 0) == (texts[at] == ())
        assert [other == place for other in found] == [other == texts[at] for other in texts]
