"""What rules advise exists: torch takes it, and the catalogue does not refuse what a rule has checked."""

from __future__ import annotations

import inspect

import pytest

from laptime.kit.registry import load, names
from laptime.rules import _evidence, _facts
from laptime.tuning import optimization

KNOWN = {"compiled", "loader", "cuda", "cpu", "conv"}
"""Facts of the catalogue that a trace tells under the same name."""


@pytest.mark.parametrize("name", names("optimizations"))
def test_a_rule_asks_for_what_the_catalogue_needs(name: str) -> None:
    needs = optimization.load(name).needs
    told = {need for need in needs if need.removeprefix("!") in KNOWN}
    assert _evidence.NEEDS.get(name, told) == told


def test_only_known_optimizations_have_needs() -> None:
    assert set(_evidence.NEEDS) <= set(names("optimizations"))
    assert set(_facts.FACTS) >= KNOWN


@pytest.mark.parametrize("name", names("rules"))
def test_rules_ask_for_facts_that_there_are(name: str) -> None:
    needs: frozenset[str] = getattr(load("rules", name), "NEEDS", frozenset())
    assert {need.removeprefix("!") for need in needs} <= set(_facts.FACTS)


@pytest.mark.torch
def test_torch_takes_the_switches_of_optimizers() -> None:
    import torch

    for switch, known in (("fused", _evidence.FUSED), ("foreach", _evidence.FOREACH)):
        classes = {
            name: each
            for name, each in vars(torch.optim).items()
            if inspect.isclass(each) and issubclass(each, torch.optim.Optimizer)
        }
        taking = {name for name, each in classes.items() if switch in inspect.signature(each).parameters}
        assert set(known) == taking


@pytest.mark.torch
@pytest.mark.parametrize("name", _evidence.FOREACH)
def test_the_advised_switch_can_be_set(name: str) -> None:
    import torch

    from fixtures.diagnosed import cpu

    switch = _evidence.optimizer_switch(cpu(), name).removesuffix("=True")
    optimizer = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(3))], **{switch: True})
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
