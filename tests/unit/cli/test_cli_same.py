from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from fixtures import runs
from laptime.records.run import Run
from laptime.verbs.bench import variants as verb

Laptime = Callable[..., Any]
Fake = Callable[[Run], Any]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Finds one target and two backends, and remembers what it was asked."""
    told: list[dict[str, Any]] = []

    def same(name: str, **more: Any) -> verb.FrameworkTargets:
        told.append({"name": name, **more})
        return verb.FrameworkTargets(["torchvision:resnet18"], ["torch", "onnxruntime"])

    monkeypatch.setattr(verb, "same", same)
    return told


@pytest.mark.parametrize("line", [["bench", "--same", "resnet18"], ["compare", "--same", "resnet18"]])
def test_an_architecture_becomes_targets_and_backends(
    laptime: Laptime, fake_bench: Fake, line: list[str]
) -> None:
    fake = fake_bench(runs.compared())
    laptime(*line)
    (request,) = fake.requests
    assert request.targets == ["torchvision:resnet18"]
    assert request.backends == ["torch", "onnxruntime"]
    assert request.origins["backends"] == "machine"


def test_interpreters_and_backends_go_along(
    laptime: Laptime, fake_bench: Fake, asked: list[dict[str, Any]]
) -> None:
    fake_bench(runs.compared())
    laptime("bench", "--same", "resnet18", "--python", f"torch={sys.executable}", "--backend", "torch")
    assert asked == [{"name": "resnet18", "backends": ["torch"], "python": {"torch": sys.executable}}]


def test_targets_may_stand_beside_it_in_bench(laptime: Laptime, fake_bench: Fake) -> None:
    fake = fake_bench(runs.compared())
    laptime("bench", "a:b", "--same", "resnet18")
    assert fake.requests[0].targets == ["a:b", "torchvision:resnet18"]


@pytest.mark.parametrize(
    ("line", "what", "next"),
    [
        (["compare"], "compare needs A and B", "laptime compare last~1 last"),
        (["compare", "last"], "compare needs A and B", "laptime compare last~1 last"),
        (
            ["compare", "a:b", "--same", "resnet18"],
            "--same takes the place of A and B",
            "laptime bench a:b --same",
        ),
    ],
)
def test_a_comparison_of_one_is_refused(laptime: Laptime, line: list[str], what: str, next: str) -> None:
    ended = laptime(*line)
    assert ended.code == 2
    first, _, last = ended.err.splitlines()
    assert what in first
    assert next in last
