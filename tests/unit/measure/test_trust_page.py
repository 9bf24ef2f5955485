"""The page that says what each check looks at, and what it does not."""

from __future__ import annotations

import re
from pathlib import Path

from laptime.kit.registry import names

PAGE = Path(__file__).resolve().parents[3] / "docs" / "trust.md"


def test_the_page_has_a_row_for_every_check_and_for_nothing_else() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert sorted(rows) == sorted(names("checks"))
