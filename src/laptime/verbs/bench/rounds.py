"""The requests to workers beside the blocks of a case: to open, peaks of the device, the last passes."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from msgspec import structs

from laptime.analysis.achieved import FEWEST, TAG
from laptime.analysis.architecture import work_of
from laptime.measure import passes
from laptime.records.case import Case
from laptime.records.details import Peak
from laptime.records.event import Listener, Progress
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.verbs.bench.case_worker import CaseWorker


def load_first(workers: Sequence[CaseWorker], *, one_by_one: bool) -> None:
    """Load the workers of one variant for the first time, which gives import and load times.

    Variants load one after another, so that they do not disturb each other. The workers of one variant load
    together, unless one by one, and a note on their times says so."""
    for group in [[worker] for worker in workers] if one_by_one else [workers]:
        open_together(group)
        note = f"beside {len(group) - 1} other processes that loaded, too" if len(group) > 1 else ""
        for worker in group:
            worker.prepare(note.replace("1 other processes", "1 other process"))


def open_together(workers: Sequence[CaseWorker]) -> None:
    """Start all of them and wait until each has loaded its variant, or failed to."""
    for worker in workers:
        worker.start()
        if worker.is_here:  # in the thread of the calls: frameworks keep settings by thread
            worker.open()
    apart = [worker for worker in workers if not worker.is_here]
    with ThreadPoolExecutor(max(1, len(apart))) as pool:
        try:
            list(pool.map(lambda worker: worker.open(), apart))
        except KeyboardInterrupt:
            for worker in workers:  # else the pool waits until all of them have loaded
                worker.abandon()
            raise


# The device's peak: a block takes some 40 ms, 20 ms of timed products, two calls before them, and making the
# matrices. Each variant gets the fewest that an interval needs, then no more than its part of `SHARE` of the
# time. Its samples go to all of its cases: the same device, dtype and threads.

SHARE = 0.04  # share of the measuring time that the peaks of all variants may take together
MOST_TRIES = 8  # blocks after which a variant has had its chances of `FEWEST` undisturbed ones
WARM = 0.1  # seconds of a call from which on nothing shows of the caches that a product left cold before it


@dataclass
class _Account:
    """The time that one variant's peak has taken."""

    tries: int = 0  # blocks so far
    quiet: int = 0  # those of them that nothing disturbed
    spent: float = 0.0  # seconds of them in this generation
    is_over: bool = False  # a block came to nothing, so there are no more
    facts: Peak | None = None  # what the worker tells of them


class PeakRounds:
    """Decides, and keeps an account of each variant. wanted: whether peaks are measured at all."""

    def __init__(self, variants: list[Variant], *, wanted: bool) -> None:
        self._accounts = [_Account(is_over=not wanted) for _ in variants]
        self._variants = variants

    def begin(self) -> None:
        """A generation of workers begins to measure."""
        for account in self._accounts:
            account.spent = 0.0

    def _account(self, variant: Variant) -> _Account:
        return next(a for a, v in zip(self._accounts, self._variants, strict=True) if v is variant)

    def is_due(self, variant: Variant, elapsed: float) -> bool:
        """Whether a block may be measured now, `elapsed` seconds after measuring began."""
        account = self._account(variant)
        share = SHARE * elapsed / len(self._accounts)
        is_short = account.quiet < FEWEST and account.tries < MOST_TRIES
        return not account.is_over and (is_short or account.spent <= share)

    def enter(self, variant: Variant, samples: list[Series], facts: Peak | None, *, seconds: float) -> None:
        """Keep account of one block: its samples, what the worker told of it, and how long it took."""
        account = self._account(variant)
        account.tries += 1
        account.quiet += sum(not any(series.label) for series in samples)
        account.spent += seconds
        account.is_over = facts is None or bool(facts.reason)
        account.facts = account.facts or facts

    def add_peak(self, worker: CaseWorker, case: Case) -> Case:
        """The case with what is known of its peak; of that on paper, if none was measured."""
        facts, series = self._account(worker.variant).facts or Peak(), case.find(TAG)
        if series is not None and series.samples:
            known = structs.replace(facts, flops=median(series.samples))
        else:
            paper = worker.peak_on_paper()
            known = structs.replace(
                facts, limit=facts.limit or paper.limit, source=facts.source or paper.source
            )
        return structs.replace(case, details=structs.replace(case.details, peak=known))


# Passes that follow the timed calls.

CaseOf = Callable[[CaseWorker, int], Case]
Active = Sequence[tuple[CaseWorker, int]]


def complete_cases(active: Active, case_of: CaseOf, say: Callable[[str, float], None]) -> Iterator[Case]:
    """The cases as each pass completes them.
    active: the cases that have not failed. case_of: the case as it is now. say: reports what is going on, and
    the share of all passes that lies behind it."""
    for number, kind in enumerate(passes.KINDS):
        say(f"measuring {kind}" if kind != "count" else "counting FLOPs", number / (len(passes.KINDS) + 1))
        for worker, batch in active:
            yield worker.do(kind, batch, case_of(worker, batch))
    groups: dict[tuple[str, int, tuple[object, ...]], list[CaseWorker]] = {}
    for worker, batch in active:
        if not worker.variant.train:  # a training step changes the weights
            work = work_of(case_of(worker, batch))
            groups.setdefault((worker.variant.target, batch, work), []).append(worker)
    for (target, batch, _), workers in groups.items():
        if len(workers) > 1:
            say(f"comparing outputs of {target}", len(passes.KINDS) / (len(passes.KINDS) + 1))
            yield from _compare(workers, batch, case_of)


def _compare(workers: Sequence[CaseWorker], batch: int, case_of: CaseOf) -> Iterator[Case]:
    """The cases of one model and batch size; the outputs of each held against the first one's."""
    reference, *others = workers
    with tempfile.TemporaryDirectory(prefix="laptime-outputs-") as folder:
        path = Path(folder) / "calls.npz"
        first = case_of(reference, batch)
        yield reference.do(passes.RECORD, batch, first, path=str(path))
        if not path.is_file():
            return
        for worker in others:
            case = case_of(worker, batch)
            dtype = str(first.axes.get("dtype", "float32"))
            yield worker.do(
                passes.COMPARE, batch, case, path=str(path), against=_name(first, case), dtype=dtype
            )


def _name(reference: Case, case: Case) -> str:
    """The reference in words: its framework if the case has another one, else the axes that differ."""
    frameworks = [str(each.axes.get("backend", "torch")) for each in (reference, case)]
    if frameworks[0] != frameworks[1]:
        return frameworks[0]
    differing = [f"{name}={value}" for name, value in reference.axes.items() if case.axes.get(name) != value]
    missing = [name for name in case.axes if name not in reference.axes]
    return ", ".join([*differing, *(f"no {name}" for name in missing)]) or "the first case"


# How far a benchmark is by wall time: loading, measuring and the passes behind it each take their share.


LOADING = 3.0  # seconds that one variant takes to load: a guess, until all have loaded once
PASSES = 1.0  # seconds that the passes of a case (outputs, FLOPs, memory ...) take beside calls of the model
CALLS = 10  # calls of the model that they make


class WallProgress:
    """Tells the share of the time that has passed of all that it will take, and what is being done.

    The share is never 1: whatever is still going on has some time left. While nobody knows how long a phase
    takes (a search for batch sizes) it is 0."""

    def __init__(self, emit: Listener, now: Callable[[], float], *, variants: int) -> None:
        self._emit, self._now, self._begun = emit, now, now()
        self._variants, self._processes = variants, 1
        self._loading, self._measuring = LOADING * variants, 0.0
        self._passes = PASSES * variants
        self._generation, self._is_loading, self._is_searching = 0, True, False
        self._since = self._begun

    def searching(self) -> None:
        self._is_searching = True

    def loading(self, generation: int, processes: int, budget: float) -> None:
        """Workers of a generation load; `budget` is the measuring of all of them, in seconds."""
        self._processes = processes
        self._generation, self._is_loading, self._is_searching = generation, True, False
        self._measuring, self._since = budget / self._processes, self._now()

    def end_loading(self, calls: Iterable[float]) -> None:
        """They have: now it is known how long that takes, and a call of each case, in seconds."""
        self._loading, self._is_loading = self._now() - self._since, False
        self._passes = sum(PASSES + CALLS * seconds for seconds in calls)
        self._since = self._now()

    def measuring(self, remaining: float) -> None:
        """A round is over; `remaining` is of the budget of this generation, in seconds."""
        share = "" if self._processes == 1 else f", process {self._generation + 1} of {self._processes}"
        self._tell(f"measuring{share}", max(0.0, remaining) + self._later + self._passes)

    def completing(self, text: str, share: float) -> None:
        self._tell(text, (1 - share) * self._passes)

    def say(self, text: str) -> None:
        gone = self._now() - self._since if self._is_loading else 0.0
        left = max(0.0, self._loading - gone) + self._measuring + self._later + self._passes
        self._tell(text, left)

    @property
    def _later(self) -> float:
        return (self._processes - self._generation - 1) * (self._loading + self._measuring)

    def _tell(self, text: str, left: float) -> None:
        gone = self._now() - self._begun
        done = 0.0 if self._is_searching or gone <= 0 else gone / (gone + left)
        self._emit(Progress(done=min(0.99, done), remaining=left, text=text))
