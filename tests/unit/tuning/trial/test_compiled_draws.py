"""Compiled code draws what eager code draws, where it is asked to, and only then."""

from __future__ import annotations

import shutil

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile on a CPU needs g++"),
]


def test_masks_of_compiled_dropout_are_those_of_eager_code() -> None:
    import torch
    from torch import nn
    from torch._inductor import config

    from laptime.tuning.trial.numerics import model_variants

    inputs = torch.rand(64, 64)

    def drawn(*, is_compiled: bool) -> torch.Tensor:
        model = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
        if is_compiled:
            model.compile()
        torch.manual_seed(0)
        result: torch.Tensor = model(inputs)
        return result

    eager = drawn(is_compiled=False)
    undo = model_variants.as_eager()
    assert torch.equal(drawn(is_compiled=True), eager)
    undo()
    assert not config.fallback_random
    assert not torch.equal(drawn(is_compiled=True), eager)
