"""Do the figures of `laptime load` hold on queues of known truth, and how near does --find-peak come?

Everything is in virtual time: schedule, rows, checks and search are those of the verb, servers draw their
service times (tests/fixtures/load_worlds.py). Ten of the forty were written when the code was done.

python benchmarks/load_queues.py [--seeds 10] [--searches 20]     --seeds 0: the searches alone
"""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from _harness import Figures, option, run, table
from fixtures.load_worlds import LIBRARY, OTHERS, UNSEEN, World, level, numbers, searched, stable, truth
from laptime.analysis.open_loop import longest_pause
from laptime.analysis.promises import promises

NAMES = ("mean", "median", "p90", "p95", "p99")
HELD, FALSE, NEAR, FOUND = 0.93, 0.02, 0.1, 0.8
QUEUES: dict[str, tuple[World, str, float]] = {
    "M/M/1, 20 ms": (World(), "latency=200ms@p99", 26.97),
    "M/D/1, 20 ms": (World("constant"), "latency=200ms@p99", 38.67),
    "M/D/3, 0.4 s": (World("constant", 0.4, 3), "latency=1s@p99", 4.68),
    "M/D/3, 0.4 s, p95": (World("constant", 0.4, 3), "latency=1s@p95", 5.54),
    "M/M/4, 50 ms, p95": (World("exponential", 0.05, 4), "latency=250ms@p95", 0.0),
    "M/lognormal/2, 0.1 s, p90": (World("lognormal", 0.1, 2), "latency=400ms@p90", 0.0),
    "M/E2/2, 60 ms": (World("erlang", 0.06, 2), "latency=400ms@p99", 0.0),
    "M/U/1, 0.3 s, p95": (World("uniform", 0.3, 1), "latency=1s@p95", 0.0),
    "M/Weibull/3, 80 ms, p95": (World("weibull", 0.08, 3), "latency=500ms@p95", 0.0),
    "G/E2/1, bursts, p95": (World("erlang", 0.05, arrivals="gamma"), "latency=400ms@p95", 0.0),
    "M/bimodal/2, 0.1 s, p95": (World("bimodal", 0.1, 2), "latency=900ms@p95", 0.0),
    "M/D/8, 1 s, p95": (World("constant", 1.0, 8), "latency=2s@p95", 0.0),
    "M/H2/1, 50 ms, p95": (World("hyper", 0.05), "latency=600ms@p95", 0.0),
    "shares a CPU, 20 ms, p95": (World(works="shares"), "latency=200ms@p95", 0.0),
    "shares a CPU, 0.1 s, p95": (World("constant", 0.1, works="shares"), "latency=1s@p95", 0.0),
    "batches of 64, p95": (World("constant", 0.04, 64, works="batches"), "latency=150ms@p95", 0.0),
    "batches of 16, p95": (World("constant", 0.4, 16, works="batches"), "latency=2s@p95", 0.0),
    "four slots that pause, p95": (World("constant", slots=4, works="pauses"), "latency=250ms@p95", 0.0),
}
"""With the rate at which the promise breaks: of the first two exact, of the next two from 400,000 requests a
rate; 0: found here like those. How long a search takes was chosen on the first six; the last five are not
slots with one queue."""


def levels(worlds: dict[str, World], seconds: float, seeds: int) -> dict[str, object]:
    """How many quantiles are told and hold, rates that are off by 2 %, levels falsely called invalid."""
    told, held = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    off = invalid = made = 0
    for world in worlds.values():
        right = truth(world) if stable(world) else {}
        for seed in range(seeds):
            case = level(world, seconds, 100 + seed)
            stats = numbers(case)
            made += 1
            invalid += case.trust == "invalid"
            whole = float(np.isfinite(stats.requests.latency).mean())
            if stable(world):
                off += abs((stats.answered.value or 0.0) / (world.rate * whole) - 1) > 0.02
            for name in NAMES if right else ():
                ends = stats.latency[name].ci95 if stats.latency[name].value is not None else None
                if ends is not None:
                    told[name] += 1
                    held[name] += ends[0] * 0.999 <= right[name] <= ends[1] * 1.001
    return {"levels": made, "told": told, "held": held, "rates off": off, "invalid": invalid}


def stalls(worlds: dict[str, World], seeds: int) -> list[str]:
    """How many levels of 20 s are told to have stood still: that did not; that did for 1 and for 2 s."""
    made, found = [0, 0, 0], [0, 0, 0]
    for world in filter(stable, worlds.values()):
        for seed in range(seeds):
            for at, seconds in enumerate((0.0, 1.0, 2.0) if world.works == "slots" else (0.0,)):
                rows = numbers(level(world._replace(stall=(6.0, seconds)), 20.0, 500 + seed)).requests
                pause = longest_pause(rows.due, rows.end, np.isfinite(rows.latency))
                made[at] += 1
                found[at] += pause is not None and (not at or abs(pause[1] - pause[0] - seconds) < seconds)
    return [f"{each} of {of}" for each, of in zip(found, made, strict=True)]


def above(law: str, over: float, seconds: float, seeds: int) -> tuple[int, int, int]:
    """How many levels of one slot, so far above its capacity, are told to grow, or have a rate whose interval
    reaches down to that capacity, or neither."""
    world = World(law)
    most = world.slots / world.mean
    grows = reach = 0
    for seed in range(seeds):
        stats = numbers(level(world._replace(rate=most * over), seconds, 7000 + seed))
        ends = stats.answered.ci95
        grows += stats.balance.grows
        reach += not stats.balance.grows and ends is not None and ends[0] <= 1.001 * most
    return grows, reach, seeds - grows - reach


def edge(world: World, slo: str) -> float:
    """The rate at which a long level breaks the promise, by halving."""
    (promise,) = promises(slo)
    low, high = 0.0, world.slots / world.mean / (1 + 0.05 * world.slots * (world.works == "batches"))
    for _ in range(11):
        rate = (low + high) / 2
        took = truth(world._replace(rate=rate), 1e9)[promise.quantile]
        low, high = (rate, high) if took <= promise.limit else (low, rate)
    return (low + high) / 2


def main(asked: Namespace, figures: Figures) -> int:
    """Both tables; 1 if a limit is passed."""
    rows = []
    ok = True
    for title, worlds in (
        (("the library", LIBRARY), ("unseen", UNSEEN), ("not slots", OTHERS)) if asked.seeds else ()
    ):
        for seconds in (20.0, 60.0):
            found = figures.again(f"{title} {seconds:g}", levels(worlds, seconds, asked.seeds))
            told, held = found["told"], found["held"]
            share = sum(held.values()) / max(1, sum(told.values()))
            ok = ok and share >= HELD and found["invalid"] <= FALSE * found["levels"]
            cells = [f"{held[name]} of {told[name]}" for name in NAMES]
            counts = [str(found[name]) for name in ("rates off", "invalid")]
            rows.append((f"{title}, {seconds:g} s", str(found["levels"]), *cells, f"{share:.1%}", *counts))
            figures.keep()
    if rows:
        table(("levels", "number", *NAMES, "hold", "rates off by 2 %", "invalid"), rows)
        rows = []
        for law, over in ((law, over) for law in ("exponential", "constant") for over in (1.05, 1.1, 1.2)):
            counts = ["{}, {}, {}".format(*above(law, over, each, 4 * asked.seeds)) for each in (20.0, 60.0)]
            rows.append((law, f"{over - 1:.0%}", *counts))
        table(("service", "above capacity", "20 s: grows, interval, neither", "60 s"), rows)
        everything = LIBRARY | UNSEEN | OTHERS
        columns = ("told to have stood still", "did not", "1 s", "2 s")
        table(columns, [("20 s", *stalls(everything, asked.seeds))])
    rows = []
    for name, (world, slo, known) in QUEUES.items():
        right = known or edge(world, slo)
        peaks = [searched(world, slo, seed) for seed in range(1000, 1000 + asked.searches)]
        about = [peak.about[0] / right for peak in peaks if peak.about]
        near = sum(abs(ratio - 1) <= NEAR for ratio in about)
        claims = [peak.rate / right for peak in peaks if peak.rate]
        too_high = sum(claim > 1 for claim in claims)
        ok = ok and too_high == 0 and near >= FOUND * len(peaks)
        reach = f"{np.median(claims):.2f}" if claims else "-"
        rows.append((name, slo, f"{right:.2f}/s", f"{near} of {len(peaks)}"))
        rows[-1] = (*rows[-1], str(len(claims)), reach, str(too_high))
        figures[name] = {"truth": right, "about": about, "claims": claims}
        figures.keep()
    table(("queue", "promise", "peak", "within 10 %", "claims", "their median", "above the peak"), rows)
    return 0 if ok else 1


run(
    main,
    "Load on queues of known truth",
    option("--seeds", type=int, default=10),
    option("--searches", type=int, default=20),
)
