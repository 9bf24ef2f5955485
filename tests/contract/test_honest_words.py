"""Nothing that laptime prints or documents claims more than a gate on a few steps has checked."""

from __future__ import annotations

import re
from pathlib import Path

from fixtures import tunings
from laptime.reports.formats import markdown, text

ROOT = Path(__file__).resolve().parents[2]
CLAIM = re.compile(
    r"prov(?:e|es|en|ing)\b[^.:;]{0,40}\b(?:same training|trains? (?:just )?the same|still trains)",
    re.IGNORECASE,
)


def test_the_words_that_are_looked_for_are_found() -> None:
    assert CLAIM.search("proves that it still trains the same")
    assert CLAIM.search("It is proven to be the same training")


def test_no_page_and_no_text_in_the_source_claims_a_proof_of_a_training() -> None:
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    told = [str(file) for file in files if CLAIM.search(" ".join(file.read_text(encoding="utf-8").split()))]
    assert not told


def test_a_report_says_what_the_gate_asked() -> None:
    run = tunings.samples()["tuning"]()
    for report in (text.render(run), text.render(run, brief=True), markdown.render(run)):
        assert re.search(r"6 questions over 8 steps", report)
        assert not CLAIM.search(report)
