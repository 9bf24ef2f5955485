"""What does the measuring loop add to each sample, over a bare loop around `perf_counter`?

Asked for: under 2 us. Measured with a call that does nothing and with one of about 50 us, once with the
disturbance evidence that `laptime bench` reads and once without; interleaved rounds, medians.

    adds       wall time of the whole loop over that of the bare one, for each sample
    inside     what of it lies inside the timed window, so in the printed latency
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from laptime.measure import loop
from laptime.probes.scheduler import Evidence

ROUNDS = 25
LIMIT = 2e-6
Round = tuple[float, float]  # wall time of the loop, and median sample, both in seconds


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


def work() -> int:
    """About 50 us of Python."""
    return sum(range(2500))


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
    tape = loop.isolated(Plain(call), seconds=60.0, min_calls=calls, max_calls=calls, evidence=evidence)
    return (perf_counter() - started) / calls, statistics.median(tape.seconds)


def main() -> int:
    """Print the table; 1 when the limit is passed."""
    evidence = Evidence()
    print("| call | evidence | bare loop | adds | of it inside |\n| --- | --- | --- | --- | --- |")
    worst = 0.0
    for call, calls in ((nothing, 20_000), (work, 2_000)):
        for name, read in (("no", None), ("yes", evidence)):
            pairs = [(bare(call, calls), ours(call, calls, read)) for _ in range(ROUNDS)]
            adds, inside = (statistics.median(b[i] - a[i] for a, b in pairs) for i in (0, 1))
            worst = max(worst, adds)
            base = statistics.median(a[0] for a, _ in pairs)
            figures = " | ".join(f"{value * 1e6:.2f} us" for value in (base, adds, inside))
            print(f"| {call.__name__} | {name} | {figures} |")
    print(f"\nlimit {LIMIT * 1e6:.0f} us: {'kept' if worst < LIMIT else 'passed'}")
    return int(worst >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
