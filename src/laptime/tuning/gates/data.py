"""The samples of an epoch: the same ones, in as many batches, the last one too, augmented as differently as
before.

What is asked follows tune.md, GATE 1: multiset of sample ids, number of batches, the hash of each sample, the
distribution of samples (Kolmogorov-Smirnov), random numbers that two workers share (fairseq#1383).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from statistics import fmean, stdev

from laptime.records.tuning import GateCheck
from laptime.tuning.gates.captured_numerics import Pair, Samples
from laptime.tuning.gates.invariants import checked

FEWEST = 20
"""Samples of each side from which on distributions are compared."""
CRITICAL = 1.949
"""Of the two-sample Kolmogorov-Smirnov statistic at 0.1 %: sqrt(-ln(0.001 / 2) / 2)."""
SHIFT = 4.0
"""Standard errors by which the same samples may have moved on average."""
REPEATED = 0.01
"""Share of samples that may be repeated beyond the baseline's."""
TOGETHER = 4
"""Reads that two workers must have alike, at least, before their random numbers count as the same."""


def checks(found: Pair, numerics: str, again: Pair | None = None) -> list[GateCheck]:
    """The checks of all training loaders, in order; the worst of each name. No loader is `unknown`.

    Args:
        again: the baseline's second run against its first: whether it gives the same samples twice.
    """
    if not found.candidate or not found.base:
        return [checked("samples", "unknown", "no training loader was seen")]
    if len(found.candidate) != len(found.base):
        text = f"{len(found.candidate)} training loaders, {len(found.base)} before"
        return [checked("samples", "fail", text)]
    repeats = again is None or all(
        one.hashes == other.hashes for one, other in zip(again.candidate, again.base, strict=False)
    )
    worst: dict[str, GateCheck] = {}
    rank = {"ok": 0, "unknown": 1, "fail": 2}
    for mine, theirs in zip(found.candidate, found.base, strict=True):
        for check in _of_loader(mine, theirs, numerics, repeats=repeats):
            known = worst.get(check.name)
            if known is None or rank[check.outcome] > rank[known.outcome]:
                worst[check.name] = check
    return list(worst.values())


def _of_loader(mine: Samples, theirs: Samples, numerics: str, *, repeats: bool) -> list[GateCheck]:
    if not mine.sizes or not theirs.sizes:
        return [checked("samples", "unknown", "the loader gave nothing")]
    made = [_samples(mine, theirs, numerics), _last_batch(mine, theirs)]
    if numerics != "algorithm":
        made.append(_batches(mine, theirs))
    if not theirs.iterable:
        made.append(_augmentation(mine, theirs))
    made.append(_duplicates(mine, theirs))
    if numerics in ("exact", "reassociated") and repeats and mine.ids == theirs.ids:
        made.append(_content(mine, theirs, numerics))
    if numerics in ("random", "algorithm"):
        made.append(_distribution(mine, theirs))
    elif mine.ids and theirs.ids:
        made.append(_order(mine, theirs))
    return made


def _common(mine: Samples, theirs: Samples) -> tuple[list[str], list[str], bool]:
    """Ids (hashes of an IterableDataset) of both, as far as they go; whether of a whole epoch."""
    one, other = (mine.hashes, theirs.hashes) if theirs.iterable else (mine.ids, theirs.ids)
    whole = mine.complete and theirs.complete
    if whole:
        return one, other, True
    length = min(len(one), len(other))
    return one[:length], other[:length], False


def _samples(mine: Samples, theirs: Samples, numerics: str) -> GateCheck:
    """Each sample as often as before."""
    one, other, whole = _common(mine, theirs)
    if not one or not other:
        return checked("samples", "unknown", "the loader does not tell which samples it takes")
    missing, extra = Counter(other) - Counter(one), Counter(one) - Counter(other)
    if not missing and not extra:
        of = "an epoch" if whole else f"the first {len(mine.sizes)} batches"
        return checked("samples", "ok", f"the same {len(one)} samples in {of}", len(one), len(other))
    if theirs.iterable and numerics == "random" and len(one) == len(other):
        return checked(
            "samples", "ok", f"as many samples, {len(one)}; they are told apart by nothing", len(one)
        )
    if not whole:
        text = f"the order is another, and an epoch is longer than the {len(one)} samples that were seen"
        return checked("samples", "unknown", text)
    text = f"{missing.total()} samples of an epoch are missing and {extra.total()} are new or repeated"
    named = next(iter(missing or extra))
    return checked("samples", "fail", f"{text}, sample {named} among them", len(one), len(other))


def _batches(mine: Samples, theirs: Samples) -> GateCheck:
    own = len(mine.sizes) if mine.complete else mine.length
    base = len(theirs.sizes) if theirs.complete else theirs.length
    if own is None or base is None:
        return checked("batches", "unknown", "an epoch is longer than what was seen, and has no length")
    if own != base:
        return checked("batches", "fail", f"{own} batches an epoch, {base} before", own, base)
    return checked("batches", "ok", f"{own} batches an epoch, as before", own, base)


def _last_batch(mine: Samples, theirs: Samples) -> GateCheck:
    """The ragged end of an epoch is trained on as before."""
    if mine.complete and theirs.complete:
        own, base = sum(mine.sizes), sum(theirs.sizes)
        if own < base and mine.drop_last and not theirs.drop_last:
            text = f"the last batch is dropped: {own} samples an epoch, {base} before"
            return checked("last_batch", "fail", text, own, base)
        if own < base:
            return checked("last_batch", "fail", f"{own} samples an epoch, {base} before", own, base)
        return checked("last_batch", "ok", f"{own} samples an epoch", own, base)
    dropped = mine.drop_last and not theirs.drop_last
    if dropped and mine.dataset and mine.batch_size and mine.dataset % mine.batch_size:
        text = f"the last batch is dropped: {mine.dataset % mine.batch_size} samples of an epoch"
        return checked("last_batch", "fail", text, mine.dataset % mine.batch_size, 0)
    return checked("last_batch", "ok", "the last batch is kept or dropped as before")


def _order(mine: Samples, theirs: Samples) -> GateCheck:
    one, other, _ = _common(mine, theirs)
    if one == other:
        return checked("order", "ok", "in the same order")
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return checked("order", "fail", f"another order from sample {place + 1} of the epoch on", place)


def _content(mine: Samples, theirs: Samples, numerics: str) -> GateCheck:
    """The samples themselves, bit for bit; other rounding is allowed to `reassociated`."""
    length = min(len(mine.hashes), len(theirs.hashes))
    pairs = zip(mine.hashes[:length], theirs.hashes[:length], strict=True)
    unequal = sum(a != b for a, b in pairs)
    if not length:
        return checked("content", "unknown", "no sample was read")
    if unequal and numerics != "exact":
        return _distribution(mine, theirs)
    text = f"{unequal} of {length} samples differ" if unequal else f"{length} samples bit for bit the same"
    return checked("content", "fail" if unequal else "ok", text, unequal, 0)


class _Streams:
    """What one sample, read again and again, tells of the random numbers."""

    def __init__(self, draws: list[list[list[str]]]) -> None:
        passes = [[row for row in rows if row] for rows in draws]
        self.reads = min((len(row) for rows in passes for row in rows), default=0)
        kept = [[tuple(row[: self.reads]) for row in rows] for rows in passes]
        rows = [row for rows in kept for row in rows]
        changing = [row for row in rows if len(set(row)) > 1]
        self.is_random = bool(changing) or len(set(rows)) > 1
        self.is_shared = self.reads >= TOGETHER and any(
            len(set(own)) < len(own) for own in ([row for row in each if len(set(row)) > 1] for each in kept)
        )
        self.repeats = bool(changing) and len(kept) > 1 and self.reads >= TOGETHER and kept[0] == kept[1]


def _augmentation(mine: Samples, theirs: Samples) -> GateCheck:
    """Random transforms stay random: from worker to worker, from epoch to epoch."""
    own, base = _Streams(mine.draws), _Streams(theirs.draws)
    name = "augmentation"
    if not own.reads or not base.reads:
        return checked(name, "unknown", "no sample could be read several times")
    if not base.is_random and not own.is_random:
        return checked(name, "ok", "samples are the same each time they are read")
    if not base.is_random:
        return checked(name, "fail", "samples that were always the same are random now")
    if not own.is_random:
        return checked(name, "fail", "random transforms give the same result each time")
    if own.is_shared and not base.is_shared:
        return checked(
            name, "fail", f"workers share their random numbers: {mine.workers} workers, same augmentations"
        )
    if own.repeats and not base.repeats:
        return checked(name, "fail", "every epoch repeats the augmentations of the one before")
    return checked(name, "ok", "random transforms differ between reads, workers and epochs")


def _duplicates(mine: Samples, theirs: Samples) -> GateCheck:
    own, base = _repeated(mine), _repeated(theirs)
    if own is None or base is None:
        return checked("duplicates", "unknown", "no sample was read")
    outcome = own <= base + REPEATED
    text = f"{own:.1%} of the samples have come up before in the epoch, {base:.1%} in the baseline's"
    return checked("duplicates", "ok" if outcome else "fail", text, own, base + REPEATED)


def _repeated(of: Samples) -> float | None:
    """Share of samples that are, bit for bit, one that came before."""
    return 1 - len(set(of.hashes)) / len(of.hashes) if of.hashes else None


def _distribution(mine: Samples, theirs: Samples) -> GateCheck:
    """Means of samples: of the same samples paired, and as distributions."""
    own = [value for value in mine.values if value is not None]
    base = [value for value in theirs.values if value is not None]
    if min(len(own), len(base)) < FEWEST:
        text = f"{min(len(own), len(base))} samples are too few to compare distributions"
        return checked("distribution", "unknown", text)
    spread = max(stdev(base), 1e-12)
    text = f"mean {fmean(own):.4g}, {fmean(base):.4g} before; deviation {stdev(own):.4g}, {spread:.4g} before"
    moved = _moved(mine, theirs)
    if moved > SHIFT:
        text = f"the same samples have moved by {moved:.1f} standard errors: {text}"
        return checked("distribution", "fail", text, moved, SHIFT)
    apart = kolmogorov_smirnov(own, base)
    limit = CRITICAL * math.sqrt((len(own) + len(base)) / (len(own) * len(base)))
    return checked("distribution", "ok" if apart <= limit else "fail", text, apart, limit)


def _moved(mine: Samples, theirs: Samples) -> float:
    """Mean difference of the samples that both have, in standard errors; 0 where it is below rounding."""
    ours = dict(zip(mine.ids, mine.values, strict=False))
    apart = [
        own - value
        for key, value in zip(theirs.ids, theirs.values, strict=False)
        if value is not None and (own := ours.get(key)) is not None
    ]
    values = [value for value in theirs.values if value is not None]
    if len(apart) < FEWEST:
        return 0.0
    mean = abs(fmean(apart))
    if mean < 1e-3 * max(stdev(values), 1e-12):
        return 0.0
    return mean / max(stdev(apart) / math.sqrt(len(apart)), 1e-12)


def kolmogorov_smirnov(one: list[float], other: list[float]) -> float:
    """Largest distance of two empirical distribution functions, 0 to 1."""
    a, b = sorted(one), sorted(other)
    return max(abs(bisect_right(a, value) / len(a) - bisect_right(b, value) / len(b)) for value in (*a, *b))
