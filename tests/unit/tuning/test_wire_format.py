"""What crosses into a trial says what it is, and no typo in it is lost."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from laptime.tuning.loop_profile import LoopProfile, Site
from laptime.tuning.trial.messages import FILE, Block, CapturePlan, Messages, TrialPlan, TrialResult, write
from laptime.tuning.wire_format import WireError, build, decode, encode

PROFILE = LoopProfile(
    step=0.5,
    shares={"data": 0.1},
    peak=10**9,
    sites=(Site("model", "train.py", 3, count=0.5),),
    facts=frozenset({"cuda", "conv"}),
    details={"busy": 0.1},
    notes=("a note",),
)


@pytest.mark.parametrize(
    "document",
    [
        PROFILE,
        TrialPlan(folder="f", arms=[[], [{"name": "tf32", "options": {}}]], capture=CapturePlan(most=2)),
        TrialResult(ended="stopped", peak=None, refused=[{"name": "a", "why": "b"}]),
        Block(0, 1, [0.1], [math.inf], [8]),
    ],
)
def test_a_document_comes_back_as_it_was(document: object) -> None:
    assert decode(encode(document), type(document)) == document


def test_an_unknown_field_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(WireError, match=r"'enqueue'\?"):
        build(LoopProfile, {"step": 1.0, "enqeue": 0.5})
    with pytest.raises(WireError, match=r"sites\[0\] has no field 'colour'"):
        build(LoopProfile, {"sites": [{"kind": "model", "file": "a", "line": 1, "colour": "red"}]})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"step": "fast"}, "LoopProfile.step: expected float, got 'fast'"),
        ({"batch": 1.5}, "LoopProfile.batch: expected int, got 1.5"),
        ({"batch": True}, "LoopProfile.batch: expected int, got True"),
        ({"shares": {"data": None}}, r"LoopProfile.shares\['data'\]: expected float, got None"),
        ({"facts": "cuda"}, "LoopProfile.facts: expected .*frozenset.*, got 'cuda'"),
        ({"sites": [{"kind": "model"}]}, r"LoopProfile.sites\[0\] lacks the field 'file'"),
    ],
)
def test_a_field_of_another_type_is_named(content: dict[str, object], text: str) -> None:
    with pytest.raises(WireError, match=text):
        build(LoopProfile, content)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("[1]", "expected LoopProfile, got list"),
        ('{"step": 1.0}', "expected LoopProfile, got None"),
        (encode(Block(0, 0)), "expected LoopProfile, got Block"),
        ('{"kind": "LoopProfile", "version": 99}', "LoopProfile has version 99, expected 1"),
    ],
)
def test_a_text_that_is_something_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode(text, LoopProfile)


def test_messages_are_read_while_they_are_written(tmp_path: Path) -> None:
    messages, folder = Messages(tmp_path), str(tmp_path)
    assert messages.new_blocks() == []
    write(folder, Block(0, 0, losses=[math.nan]))
    assert messages.latest(LoopProfile) is None
    write(folder, Block(0, 1))
    assert [block.arm for block in messages.new_blocks()] == [0, 1]
    write(folder, LoopProfile(step=1.0))
    write(folder, PROFILE)
    write(folder, TrialResult(ended="stopped", rank=1), rank=1)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"kind": "TrialRes')
    assert messages.new_blocks() == []
    assert messages.latest(LoopProfile) == PROFILE
    assert messages.latest(TrialResult) is None


def test_integers_of_numpy_are_integers() -> None:
    document = LoopProfile(batch=np.int64(8))  # type: ignore[arg-type]
    assert decode(encode(document), LoopProfile).batch == 8
