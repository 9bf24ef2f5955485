"""What a finding names as its optimization can be tried: it is a file of the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import diagnosed
from laptime import rules
from laptime.kit import registry
from laptime.tuning import optimization

HERE = Path(rules.__file__).parent


def texts(node: ast.AST) -> Iterator[str]:
    """Every text that an expression may come to, its conditions left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def written(path: Path) -> set[str]:
    """Values of `optimization=` in a rule's source; a variable's are those that are assigned to it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "optimization":
            found |= set(texts(node.value))
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "optimization" for target in node.targets
        ):
            found |= set(texts(node.value))
    return found - {""}


RULES = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))


def test_rules_point_to_many_optimizations() -> None:
    assert len(set().union(*(written(path) for path in RULES))) > 15


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_optimization_of_a_rule_is_in_the_catalogue(path: Path) -> None:
    assert written(path) <= set(registry.names("optimizations"))


def test_every_finding_points_to_what_can_be_loaded() -> None:
    found = [each for profile in diagnosed.firing().values() for each in rules.diagnose(profile)]
    named = {each.optimization for each in found} - {""}
    assert named
    for name in named:
        assert optimization.load(name).title
