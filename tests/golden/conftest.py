"""Golden files: what a report looks like is reviewed as a file; LAPTIME_GOLDEN=write rewrites them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "expected"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    def check(name: str, text: str) -> None:
        path = HERE / name
        if os.environ.get("LAPTIME_GOLDEN") == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: LAPTIME_GOLDEN=write pytest tests/golden"
        assert text == path.read_text(encoding="utf-8")

    return check
