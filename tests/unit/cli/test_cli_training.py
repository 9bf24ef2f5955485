from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fixtures import runs


@pytest.mark.parametrize(
    ("words", "optimizer", "targets"),
    [
        (["--train", "a:b"], "sgd", ["a:b"]),
        (["--train", "adamw", "a:b"], "adamw", ["a:b"]),
        (["a:b", "--train"], "sgd", ["a:b"]),
        (["--train=adamw", "a:b", "c:d"], "adamw", ["a:b", "c:d"]),
        (["a:b"], "", ["a:b"]),
    ],
)
def test_the_optimizer_may_be_left_out(
    laptime: Callable[..., Any], fake_bench: Any, words: list[str], optimizer: str, targets: list[str]
) -> None:
    fake = fake_bench(runs.trusted())
    assert laptime("bench", *words).code == 0
    assert (fake.requests[0].train, fake.requests[0].targets) == (optimizer, targets)
