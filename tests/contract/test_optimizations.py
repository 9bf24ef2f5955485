"""Every optimization of the catalogue keeps its contract; and the check finds those that do not."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.testing.conformance import Broken
from laptime.testing.optimizations import check_optimization
from laptime.tuning.optimization import Optimization

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", registry.names("optimizations"))
def test_optimizations_keep_their_contract(name: str) -> None:
    check_optimization(name)


def planted(monkeypatch: pytest.MonkeyPatch, doc: str | None = None, **changed: Any) -> None:
    """`identity` of the catalogue, with something wrong about it."""
    own = registry.load("optimizations", "identity")
    broken = ModuleType(own.__name__, own.__doc__ if doc is None else doc)
    broken.__dict__["OPTIMIZATION"] = replace(own.OPTIMIZATION, **changed)
    monkeypatch.setitem(sys.modules, own.__name__, broken)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"doc": "Nothing.\n\nLies when: never."}, "no line `Source:"),
        ({"numerics": "harmless"}, "numerics"),
        ({"title": " "}, "title says"),
        ({"prior": 2.0}, "prior"),
        ({"goal": "beauty"}, "no goal"),
        ({"live": "sometimes"}, "live"),
        ({"needs": frozenset({"a_fact_of_its_own"})}, "a_fact_of_its_own"),
        ({"gives": {"identity"}}, "not a frozenset"),
        ({"propose": lambda loop_profile: [{"value": {1}}]}, "JSON"),
        ({"propose": lambda loop_profile: []}, "proposes nothing"),
        ({"propose": lambda loop_profile: [{}, {}]}, "the same twice"),
        (
            {"propose": lambda loop_profile: [{}] if loop_profile.details.update(seen=1) is None else []},
            "changed the loop profile",
        ),
        ({"saves": lambda loop_profile, options: 2 * loop_profile.step + 1}, "promises"),
        ({"saves": lambda loop_profile, options: -1.0}, "promises"),
        ({"apply": lambda loop, options: None}, "attaches nothing"),
        ({"apply": lambda loop, options: loop.process(lambda: lambda: 1 / 0)}, "cannot be undone"),
        ({"apply": lambda loop, options: loop.refuse(" ")}, "without a reason"),
        ({"edit": lambda script, options: None}, "neither edits"),
        ({"edit": lambda script: None}, "must take"),
        ({"suggests": True}, "only suggested"),
    ],
)
def test_the_check_finds_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], said: str
) -> None:
    planted(monkeypatch, **changed)
    with pytest.raises(Broken, match=said):
        check_optimization("identity")


def test_the_check_finds_a_switch_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)

    def apply(loop: Any, options: dict[str, Any]) -> None:
        torch.backends.cudnn.benchmark = True
        loop.process(lambda: None)

    planted(monkeypatch, apply=apply)
    with pytest.raises(Broken, match=r"cudnn\.benchmark"):
        check_optimization("identity")


@pytest.mark.parametrize("found", [None, {"title": "nothing, as control"}, Optimization])
def test_what_is_not_the_object_is_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, found: object
) -> None:
    """As a package would have it that was written for another version."""
    own = registry.load("optimizations", "identity")
    broken = ModuleType(own.__name__, own.__doc__)
    broken.__dict__.update({"TITLE": "nothing"} if found is None else {"OPTIMIZATION": found})
    monkeypatch.setitem(sys.modules, own.__name__, broken)
    with pytest.raises(UsageError, match="identity is") as refused:
        check_optimization("identity")
    assert "OPTIMIZATION = Optimization(" in refused.value.next
