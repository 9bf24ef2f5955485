"""Ranges that a program marked with NVTX or ROCTX, as Kineto would have written them.

PyTorch's `emit_nvtx` names operators `aten::mm, seq = 7, op_id = 12, sizes = [[4, 8], [8, 2]]`. Steps are
ranges
called `step 3`, `iteration 3`, `batch 3`, `ProfilerStep#3`; or, without numbers, `step` again and again.
Source: torch/csrc/autograd/profiler_legacy.cpp (names); the words for steps are our own choice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from laptime.trace.columns import NONE, HostKind, Ints
from laptime.trace.reading.rows import Rows

_OPERATOR = re.compile(r"^(?:\w+::\w|\w+Backward\d*\b)")
_DETAILS = re.compile(r", (?:seq|op_id|op_ids|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = (\d{1,15})")
_SIZES = re.compile(r", sizes = (\[.*\])")
_STEP = re.compile(
    r"^((?:(?:profiler|train(?:ing)?|inference|decode)[ _]?)?(?:step|iteration|iter|batch))"
    r"[ _#:=-]*(\d{1,15})?$",
    re.IGNORECASE,
)


class Mark(NamedTuple):
    """A range: ns, the thread as the file calls it, its text."""

    start: int
    end: int
    thread: int
    text: str


def add(rows: Rows, ranges: Sequence[Mark], threads: Callable[[Ints], Ints]) -> None:
    """The ranges as rows of the host, steps and operators told apart."""
    ranges = [mark for mark in ranges if mark.text]
    if not ranges:
        return
    steps = _steps(ranges)
    kinds, names, shapes, sequences = [], [], [], []
    for mark in ranges:
        operator = _OPERATOR.match(mark.text) is not None
        sizes, sequence = _SIZES.search(mark.text), _SEQUENCE.search(mark.text)
        kinds.append(int(HostKind.OPERATOR if operator else HostKind.ANNOTATION))
        names.append(steps.get(mark) or (_DETAILS.split(mark.text)[0] if operator else mark.text))
        shapes.append(sizes[1] if operator and sizes else "")
        sequences.append(int(sequence[1]) if operator and sequence else NONE)
    rows.add(
        "host",
        start=np.array([mark.start for mark in ranges]),
        end=np.array([mark.end for mark in ranges]),
        thread=threads(np.array([mark.thread for mark in ranges], np.int64)),
        kind=np.array(kinds),
        name=rows.texts(names),
        shapes=rows.texts(shapes),
        sequence=np.array(sequences),
    )


def _steps(ranges: Sequence[Mark]) -> dict[Mark, str]:
    """The ranges that are steps, `ProfilerStep#N`: those of the word on the thread that has most of them."""
    words = [(mark, found) for mark in ranges if (found := _STEP.match(mark.text))]
    counts = Counter((found[1].lower(), mark.thread) for mark, found in words)
    if not counts or max(counts.values()) < 2:
        return {}
    chosen = counts.most_common(1)[0][0]
    own = sorted((mark, found) for mark, found in words if (found[1].lower(), mark.thread) == chosen)
    return {mark: f"ProfilerStep#{found[2] or number}" for number, (mark, found) in enumerate(own)}
