"""How large are the reports of runs with many samples, and how long do they take?

Asked for: an HTML page under 500 KB in typical use. Two cases (batch 1 and 8) with so many samples each.
"""

from __future__ import annotations

import time
from argparse import Namespace

from _harness import Figures, option, run, shown, table
from fixtures import runs
from laptime.kit.registry import load
from laptime.records.run import Run

REPORTS = ("text", "markdown", "json", "html")
LIMIT = 500_000
TYPICAL = 10_000
"""Samples of a case up to which the limit holds: about a minute of calls of 6 ms."""


def run_of(samples: int) -> Run:
    """Two cases, warm-up and disturbed samples in them."""
    return runs.run(
        *(
            runs.case(
                runs.timings(0.0263 * batch, n=samples, warm_up=5, disturbed=0.05, seed=batch),
                runs.timings(
                    0.0258 * batch, n=max(20, samples // 10), seed=batch + 1, regime="saturated", start=9.0
                ),
                *runs.facts(batch=batch),
                axes={"batch": batch},
            )
            for batch in (1, 8)
        )
    )


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a typical page is over the limit."""
    data |= {"limit": LIMIT, "rows": []}
    rows, over = [], False
    for number in (int(word) for word in asked.samples.split(",")):
        run = run_of(number)
        for name in REPORTS:
            render = load("reports", name).render
            render(run)  # imports and templates
            seconds = []
            for _ in range(asked.rounds):
                started = time.perf_counter()
                size = len(render(run).encode())
                seconds.append(time.perf_counter() - started)
            over |= name == "html" and number <= TYPICAL and size > LIMIT
            rows.append((name, f"{number:,}", f"{size / 1e3:,.0f} KB", shown(seconds, factor=1e3, unit="ms")))
            data["rows"].append({"report": name, "samples": number, "bytes": size, "seconds": seconds})
    table(("report", "samples a case", "size", "time"), rows)
    print(f"\nlimit of an HTML page up to {TYPICAL:,} samples a case: {LIMIT / 1e3:.0f} KB")
    return int(over)


if __name__ == "__main__":
    run(
        main,
        "Size of reports",
        option("--samples", default="100,10000,100000", help="samples of a case, with commas"),
        option("--rounds", type=int, default=5),
    )
