"""`--batch auto`: the largest batch that fits. Which sizes are then measured: `curve`.

    scout (one worker)    1 2 4 8 16 ...      while the next one is predicted to be far from any limit
    own worker each       ... 512 1024 2048   doubling goes on until one does not fit
    own worker each       1536 1792 1664 ...  bisection between the last that fits and the first that does not

Only running out of memory counts as not fitting (CUDA's out-of-memory error; on the host the limit that
the worker's private memory is under, set below what the machine has free, so that neither swap nor the
kernel's OOM killer is ever reached). Any other error ends the search and is reported as what it is."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from laptime.kit.clock import SystemClock
from laptime.launch.worker import CommandFailed, Worker
from laptime.measure.protocol import Block, Facts, Load, Pass, Prepare, Prepared, Samples
from laptime.probes.host_memory import available_bytes
from laptime.records.case import Failure
from laptime.records.check import Finding
from laptime.records.plan import Variant
from laptime.records.series import Regime
from laptime.verbs.bench.case_worker import MEMORY_SHARE, OpenSession

FAR = 0.25  # the scout goes on while the next batch is predicted to need less of the free memory than this
RESOLUTION = 0.05  # bisection ends when the interval is below this share of the batch
LONGEST_CALL = 20.0  # seconds of one call beyond which no larger batch is tried: it would only take longer
LARGEST = 1 << 20
BEHIND, NEAR, BRIEF = 16, 0.9, 10.0
"""Without a budget, no size is measured that is more times as large as the smallest whose throughput
comes so near the best, and a search that takes longer than so many seconds ends there."""


class Attempt(NamedTuple):
    """The result of one batch size."""

    batch: int
    seconds: float  # one call; inf when it does not fit
    memory: float | None  # bytes that the call added to the process or the device; None when not told
    failure: Failure | None  # None when it fits
    on_device: bool = False  # whether `memory` is the device's


class BatchSizes(NamedTuple):
    batches: list[int]  # sizes to measure, the largest that fits among them
    findings: list[Finding]  # what was learned
    largest: int  # the largest batch known to fit
    attempts: list[Attempt]
    seconds: float  # to measure them
    is_limit: bool  # nothing much larger does


def search(
    variant: Variant,
    *,
    open_session: OpenSession,
    linear: bool = False,
    timeout: float = 120.0,
    budget: float | None = None,
    usual: float = 4.0,
    times: int = 1,
    now: Callable[[], float] = SystemClock.now,
    progress: Callable[[str], None] = lambda text: None,
) -> BatchSizes:
    """Find the largest batch that fits, and choose the sizes to measure; findings say what time was short of.
    linear: try 1, 2, 3, 4 ... instead of doubling and bisection. timeout: seconds that one step may take
    before it counts as hung. budget: seconds for the search and for measuring what it finds; None: as long as
    usual. usual, times: see `curve`."""
    began = now()
    end, is_usual = began + search_seconds(budget), budget is None
    seeker = _Search(variant, open_session, timeout, now, progress, began, end, is_usual)
    try:
        stopped = seeker.try_sizes(linear=linear)
    finally:
        seeker.retire_scout()
    left = None if budget is None else budget - (now() - began)
    return seeker.result(stopped, budget, partial(curve, left=left, usual=usual, times=times))


@dataclass
class _Search:
    """As `search`; `began`, `end`: seconds of the clock. `attempts`: so far, in order."""

    variant: Variant
    open_session: OpenSession
    timeout: float
    now: Callable[[], float]
    progress: Callable[[str], None]
    began: float
    end: float
    is_usual: bool
    attempts: list[Attempt] = field(default_factory=list)
    scout: Worker | None = None

    def try_sizes(self, *, linear: bool) -> str:
        """Try sizes until something ends it; what."""
        batch, stopped = 1, self._step(1)
        while stopped is None:
            batch = batch + 1 if linear else batch * 2
            stopped = self._step(batch)
        return self._bisect() if stopped == "memory" and not linear else stopped

    def _step(self, batch: int) -> str | None:
        attempt = self._try(batch)
        if attempt.failure is not None:
            return "memory" if _is_memory(attempt.failure) else "error"
        if attempt.seconds > LONGEST_CALL:
            return "slow"
        if batch >= LARGEST:
            return "cap"
        is_far = self.is_usual and batch >= BEHIND * self._smallest_good()
        if is_far and self.now() > self.began + BRIEF:
            return "behind"
        return "time" if self.now() > self.end else None

    def _smallest_good(self) -> int:
        """The smallest batch whose quick calls come near the best throughput."""
        rates = {each.batch: each.batch / each.seconds for each in self.attempts if each.seconds > 0}
        return min((batch for batch, rate in rates.items() if rate > NEAR * max(rates.values())), default=1)

    def _bisect(self) -> str:
        fits = max((p.batch for p in self.attempts if p.failure is None), default=0)
        fails = min(p.batch for p in self.attempts if p.failure is not None)
        while fails - fits > max(1, RESOLUTION * fits):
            if self.now() > self.end:
                return "time"
            middle = (fits + fails) // 2
            attempt = self._try(middle)
            if attempt.failure is None:
                fits = middle
            elif _is_memory(attempt.failure):
                fails = middle
            else:
                return "error"
        return "memory"

    def _try(self, batch: int) -> Attempt:
        self.progress(f"does batch {batch} fit?")
        goes_on = self._is_far(batch)
        if not goes_on:
            self.retire_scout()
        is_new = self.scout is None
        self.scout = self.scout or self.open_session(self.variant)
        attempt = self._attempt(self.scout, batch, load=is_new)
        if not goes_on:
            self.retire_scout()
        self.attempts.append(attempt)
        return attempt

    def _attempt(self, session: Worker, batch: int, *, load: bool) -> Attempt:
        try:
            if load:
                limit = int(available_bytes() * MEMORY_SHARE)
                session.ask(Load(variant=self.variant, memory_limit=limit), timeout=self.timeout)
            messages = session.ask(Prepare(batch=batch, asked=True), timeout=self.timeout)
            seconds = next(m.first_call for m in messages if isinstance(m, Prepared))
            if seconds < 2.0:
                block = Block(batch=batch, regime=Regime.ISOLATED, seconds=0.1, min_calls=2, max_calls=20)
                messages = session.ask(block, timeout=self.timeout)
                seconds = min(next(m.series[0].samples for m in messages if isinstance(m, Samples)))
            messages = session.ask(Pass(kind="memory", batch=batch), timeout=self.timeout)
        except CommandFailed as error:
            return Attempt(batch, float("inf"), None, error.failure)
        sizes = {
            series.metric.tag: series.samples[0]
            for m in messages
            if isinstance(m, Facts)
            for series in m.series
        }
        device = sizes.get("memory/device/peak")
        memory = sizes.get("memory/host/increase") if device is None else device
        return Attempt(batch, seconds, memory, None, on_device=device is not None)

    def _is_far(self, batch: int) -> bool:
        """Whether this batch is predicted, linearly from the largest seen, to stay far below the limit."""
        if self.scout is not None and not self.scout.alive:
            self.retire_scout()
        fitting = [p for p in self.attempts if p.failure is None and p.memory]
        if not self.attempts or batch <= 2:
            return True
        if not fitting or any(p.failure for p in self.attempts):
            return False
        last = fitting[-1]
        assert last.memory is not None
        return last.memory * batch / last.batch < FAR * available_bytes()

    def _predict(self) -> int | None:
        """Largest batch by a straight line through the two largest memory readings; None without two.

        Host memory only: what a device has left is not known here."""
        fitting = [p for p in self.attempts if p.failure is None and p.memory and not p.on_device]
        if len(fitting) < 2:
            return None
        (small, large) = sorted(fitting, key=lambda p: p.batch)[-2:]
        assert small.memory is not None
        assert large.memory is not None
        slope = (large.memory - small.memory) / (large.batch - small.batch)
        room = available_bytes() * MEMORY_SHARE - large.memory
        batch_at_limit = large.batch + room / slope if slope > 0 else 0
        return int(float(f"{batch_at_limit:.2g}")) if batch_at_limit > large.batch else None

    def retire_scout(self) -> None:
        if self.scout is not None:
            self.scout.close()
            self.scout = None

    def result(self, stopped: str, budget: float | None, choose: "Callable[..., Curve]") -> BatchSizes:
        fitting = sorted((p for p in self.attempts if p.failure is None), key=lambda p: p.batch)
        if not fitting:
            # Not even one item: measuring batch 1 tells the error in the usual way.
            return BatchSizes([1], [], 0, self.attempts, choose({1: 0.0}).seconds, is_limit=False)
        largest = fitting[-1].batch
        most = BEHIND * self._smallest_good() if self.is_usual else largest
        chosen = choose({each.batch: each.seconds for each in fitting if each.batch <= most})
        finding = self._finding(largest, stopped, chosen, budget)
        is_limit = stopped in ("memory", "error")
        return BatchSizes(chosen.batches, [finding], largest, self.attempts, chosen.seconds, is_limit)

    def _finding(self, largest: int, stopped: str, chosen: "Curve", budget: float | None) -> Finding:
        failed = [p for p in self.attempts if p.failure is not None]
        predicted = self._predict()
        guess = f"; by its memory about {predicted:,} would (predicted)" if predicted else ""
        smallest_failed = min((p.batch for p in failed), default=None)
        reasons = {
            "memory": f"batch {largest} fits, batch {smallest_failed} runs out of memory",
            "time": f"at least batch {largest} fits{guess}; the search stopped when its time was up",
            "slow": f"at least batch {largest} fits{guess}; one call takes over {LONGEST_CALL:g} s there",
            "behind": f"at least batch {largest} fits{guess}; throughput rose no more, so the search ended",
            "cap": f"at least batch {largest} fits; larger ones were not tried",
            "error": f"batch {largest} works; batch {smallest_failed} fails: "
            + (failed[-1].failure.what if failed and failed[-1].failure else ""),
        }
        return Finding(
            kind="batch/largest",
            severity="info",
            sentence=reasons[stopped] + _say_left_out(chosen),
            evidence={
                "largest": largest,
                "exact": stopped == "memory" and smallest_failed == largest + 1,
                "predicted": predicted if stopped in ("time", "slow") else None,
                "smallest_failing": smallest_failed,
                "stopped_by": stopped,
                "left_out": chosen.left_out,
                "probes": [
                    {
                        "batch": p.batch,
                        "fits": p.failure is None,
                        "seconds": p.seconds if p.failure is None else None,
                        "memory": p.memory,
                    }
                    for p in self.attempts
                ],
            },
            next=_next(stopped, chosen, budget),
        )


def _say_left_out(chosen: "Curve") -> str:
    if not chosen.left_out:
        return ""
    sizes = ", ".join(map(str, chosen.left_out))
    return f"; not measured for lack of time: {'batch' if len(chosen.left_out) == 1 else 'batches'} {sizes}"


def _next(stopped: str, chosen: "Curve", budget: float | None) -> str:
    if stopped == "time":
        return f"--budget {minutes(4 * search_seconds(budget))}   searches on"
    if chosen.left_out:
        return f"--budget {minutes(chosen.needed / (1 - SEARCH_SHARE))}   measures them, too"
    return ""


def _is_memory(failure: Failure) -> bool:
    """Out of memory, or ended by SIGKILL, as the kernel's OOM killer (or a container's limit) does it."""
    return failure.kind == "out_of_memory" or (failure.kind == "died" and "SIGKILL" in failure.what)


# Which sizes of those that fit are measured: all powers of two and the largest. One quick call of each says
# nothing sure about where throughput stops growing, so it does not decide; it tells what a size costs. If the
# time does not suffice for all, the dearest are left out, and the finding says which.

USUAL_SEARCH = 60.0  # seconds that a search may take without a budget
SEARCH_SHARE = 0.5  # of a budget that was set: the rest, and what the search leaves of it, is for measuring
ROUNDS = 6  # of all sizes, at least: fewer say nothing about how they compare
CALLS = 3  # of a size in a round if calls are long: one to warm up, one alone, one of those back to back
LONGEST = 60.0  # seconds that long calls may extend the usual time to


class Curve(NamedTuple):
    batches: list[int]  # sizes to measure, ascending
    left_out: list[int]  # what fits, too, but takes too long
    seconds: float  # to measure them
    needed: float  # what all of them would take at least


def search_seconds(budget: float | None) -> float:
    """Return the seconds that a search may take of this budget for everything."""
    return USUAL_SEARCH if budget is None else SEARCH_SHARE * budget


def curve(
    seconds: Mapping[int, float], *, left: float | None = None, usual: float = 4.0, times: int = 1
) -> Curve:
    """Choose.
    seconds: of one call, for every size that fits. left: of the budget that was set; None when none was.
    usual: measuring time of one size, all variants and processes together. times: variants times processes.
    """
    largest = max(seconds)
    sizes = [size for size in sorted(seconds) if size & (size - 1) == 0 or size == largest]
    round_of = {size: times * CALLS * seconds[size] for size in sizes}
    needed = ROUNDS * sum(round_of.values())
    chosen = list(sizes)
    while True:
        least = ROUNDS * sum(round_of[size] for size in chosen)
        time = left if left is not None else max(usual * len(chosen), min(least, LONGEST))
        if least <= time or len(chosen) == 1:
            return Curve(chosen, [size for size in sizes if size not in chosen], time, needed)
        chosen.remove(max(chosen, key=lambda size: round_of[size]))


def minutes(seconds: float) -> str:
    """A budget of at least so long, as it is typed."""
    return f"{max(1, math.ceil(seconds / 60))}m"
