"""Asks all rules about every trace of tests/advice, and writes into docs/rules.md how far an expert agrees.

    python scripts/advice.py             writes the table
    python scripts/advice.py NAME ...    prints what is said of these traces instead

Traces of others that are not at hand are left out, and the table says of how many it speaks.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


PAGE = ROOT / "docs" / "rules.md"
BEGIN, END = "<!-- scripts/advice.py writes from here -->", "<!-- to here -->"


def scored() -> Any:
    """tests/advice/scoring.py, which needs what tests need."""
    sys.path.insert(0, str(ROOT / "tests"))
    return importlib.import_module("advice.scoring")


def share(part: int, whole: int) -> str:
    """`98 % (53 of 54)`."""
    return f"{part / whole:.0%}".replace("%", " %") + f" ({part} of {whole})" if whole else "-"


def table(scoring: Any) -> str:
    """Markdown: one row a kind of trace, and all together."""
    given = [scoring.answer(expert) for expert in scoring.experts() if scoring.at_hand(expert)]
    rows = [
        "| traces | number | advice that the expert signs | causes that are named | first finding right"
        " | verdict right |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    kinds = list(dict.fromkeys(answer.expert.kind for answer in given))
    for kind in [*kinds, ""]:
        some = [answer for answer in given if kind in ("", answer.expert.kind)]
        score = scoring.score(some)
        cells = [
            kind or "**all**",
            str(score.traces),
            share(score.signed, score.advice),
            share(score.named, score.causes),
            share(score.first, score.traces),
            share(score.verdicts, score.traces),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main(names: list[str]) -> int:
    """Write the page, or print the answers about some traces."""
    scoring = scored()
    if names:
        for expert in scoring.experts():
            if expert.name in names:
                profile, findings = scoring.diagnosed(expert)
                print(f"{expert.name}: {profile.verdict.sentence if profile.verdict else ''}")
                print(f"  expert: {expert.why}")
                for finding in findings:
                    print(f"  {finding.severity} {finding.kind}: {finding.sentence}\n    -> {finding.change}")
        return 0
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n{table(scoring)}\n{END}{tail}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
