"""Training steps on a real CUDA device: waited for, timed by its own clock, in mixed precision."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

from laptime.backends import torch as backend  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_step_trains_and_has_times_of_the_device(dtype: str) -> None:
    model: Any = backend.open(
        Variant(target="laptime.probes.ruler:network", device="cuda:0", dtype=dtype, train="adamw")
    )
    work = model.workload(16)
    with model.scope():
        loss = work.call()
    work.sync()
    assert loss.isfinite()
    assert all(seconds > 0 for seconds in model.device_times(16, 5))
    tags = {series.metric.tag for series in model.device_memory(16)[0]}
    assert "memory/device/peak" in tags
    assert model.check_outputs(16)["finite"]
