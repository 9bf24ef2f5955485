"""What does the measuring loop add to each sample, over a bare loop around `perf_counter`?

Asked for: under 2 us. Measured with a call that does nothing and with one of about 20 us, once without and
once with the disturbance evidence that `laptime bench` reads; interleaved rounds in one process.

    adds       wall time of the whole loop over that of the bare one, for each sample
    inside     what of it lies inside the timed window, so in the printed latency
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from _harness import Figures, median, option, run, shown, table
from laptime.measure import loop
from laptime.probes.scheduler import Evidence

LIMIT = 2e-6
Round = tuple[float, float]  # wall time of the loop, and median sample, both in seconds a call


@dataclass
class Plain:
    """A workload on the CPU."""

    call: Callable[[], object]
    batch: int = 1
    synchronous: bool = True

    def sync(self) -> None:
        """Nothing to wait for."""


def nothing() -> None:
    """The shortest call there is."""


def spin(count: int) -> Callable[[], object]:
    """A call that adds so many numbers."""
    numbers = range(count)
    return lambda: sum(numbers)


def spin_of(seconds: float) -> Callable[[], object]:
    """A call of about so many seconds on this machine."""
    calls = 200
    best = min(bare(spin(1000), calls)[0] for _ in range(5))
    return spin(max(1, int(1000 * seconds / best)))


def bare(call: Callable[[], object], calls: int) -> Round:
    """The loop that people write."""
    samples = []
    started = perf_counter()
    for _ in range(calls):
        t0 = perf_counter()
        call()
        samples.append(perf_counter() - t0)
    return (perf_counter() - started) / calls, statistics.median(samples)


def ours(call: Callable[[], object], calls: int, evidence: Evidence | None) -> Round:
    """The loop of the isolated regime."""
    started = perf_counter()
    tape = loop.time_isolated(
        Plain(call), loop.Terms(seconds=60.0, min_calls=calls, max_calls=calls, evidence=evidence)
    )
    return (perf_counter() - started) / calls, statistics.median(tape.seconds)


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when the limit is passed."""
    evidence = Evidence()
    rows, worst = [], 0.0
    data["limit"], data["rows"] = LIMIT, []
    for name, call, calls in (("no-op", nothing, 20_000), ("spin of 20 us", spin_of(20e-6), 2_000)):
        for reads, read in (("no", None), ("yes", evidence)):
            pairs = [(bare(call, calls), ours(call, calls, read)) for _ in range(asked.rounds)]
            adds, inside = ([b[i] - a[i] for a, b in pairs] for i in (0, 1))
            base = [a[0] for a, _ in pairs]
            worst = max(worst, median(adds)[0])
            rows.append((name, reads, *(shown(v, factor=1e6, unit="us") for v in (base, adds, inside))))
            row = {"call": name, "evidence": reads == "yes", "bare": base, "adds": adds, "inside": inside}
            data["rows"].append(row)
    table(("call", "evidence read", "bare loop", "adds", "of it inside the window"), rows)
    print(f"\nlimit {LIMIT * 1e6:.0f} us: {'kept' if worst < LIMIT else 'passed'}, {asked.rounds} rounds")
    return int(worst >= LIMIT)


if __name__ == "__main__":
    run(main, "Cost of the measuring loop per sample", option("--rounds", type=int, default=31))
