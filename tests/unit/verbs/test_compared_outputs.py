"""Several implementations of one model in one command: their outputs are held against one another."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from laptime.launch.worker import InProcessWorker, Worker, open_variant
from laptime.measure.engine import Engine
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.plan import BenchRequest, Variant
from laptime.verbs.bench.run import bench

pytestmark = pytest.mark.torch

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        factor = FACTOR if x.dtype == torch.bfloat16 else 1
        return self.head(self.conv(x).relu().mean((2, 3))) * factor

def build():
    return Net(), torch.randn(1, 3, 8, 8)
"""


def session(variant: Variant) -> Worker:
    return InProcessWorker(Engine(open_variant))


def cases(path: Path, factor: float, train: str | None = None) -> list[Case]:
    path.write_text(NET.replace("FACTOR", str(factor)))
    dtypes = ["float32", "bfloat16"]
    request = BenchRequest(targets=[f"{path}:build"], dtype=dtypes, budget=0.2, processes=1, train=train)
    return bench(request, open_session=session).cases


def agreement(case: Case) -> Check | None:
    return next((check for check in case.checks if check.name == "agreement"), None)


@pytest.mark.parametrize(("factor", "outcome"), [(1, "ok"), (1.08, "warn"), (50, "fail")])
def test_a_precision_that_changes_the_outputs_of_a_regressor_is_noticed(
    factor: float, outcome: str, tmp_path: Path
) -> None:
    import torch

    plain, brief = cases(tmp_path / "net.py", factor)
    assert not torch.is_inference_mode_enabled(), "two in this process have closed in order"
    assert agreement(plain) is None
    said = agreement(brief)
    assert said is not None
    assert said.outcome == outcome, said.sentence
    assert "of dtype=float32" in said.sentence
    assert "batch 1, 2" in said.sentence


def test_training_steps_are_not_compared(tmp_path: Path) -> None:
    for case in cases(tmp_path / "net.py", 1, train="sgd"):
        assert agreement(case) is None
