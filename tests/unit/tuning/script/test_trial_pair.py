"""Time per sample of blocks and of pairs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laptime.tuning.script.trial_runner import TimedTrial, TrialPair, per_sample
from laptime.tuning.trial.messages import Block, TrialResult


def test_time_per_sample_is_of_whole_blocks() -> None:
    bursts = Block(0, 0, [0.01, 0.01, 0.97, 0.01], [], [4, 4, 4, 4])
    assert per_sample(bursts) == pytest.approx(1.0 / 16)
    assert per_sample(Block(0, 0, [0.5, 0.5])) == pytest.approx(0.5)
    pair = TrialPair(
        TimedTrial([Block(0, 0, [0.4], [], [4])], TrialResult()),
        TimedTrial([Block(0, 0, [0.4], [], [8])], TrialResult()),
    )
    assert pair.ratio == pytest.approx(0.5)
    assert pair.memory is None


def test_compiling_inside_a_block_is_no_time_of_its_steps() -> None:
    """The ragged batch at the end of an epoch has another shape: one step of four holds 12 s of compiling."""
    block = Block(round=0, arm=0, seconds=[0.01, 12.01, 0.01, 0.01], samples=[4, 2, 4, 4], compiling=12.0)
    assert per_sample(block) == pytest.approx(0.04 / 14)
    assert per_sample(replace(block, compiling=13.0)) > 0
