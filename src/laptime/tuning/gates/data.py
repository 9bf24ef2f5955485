"""The samples of an epoch: the same ones, in as many batches, the last one too, augmented as differently as
before.

The checks follow tune.md, GATE 1: multiset of sample ids, number of batches, the hash of each sample, the
distribution of samples (Kolmogorov-Smirnov), random numbers that two workers share (fairseq#1383)."""

import math
from bisect import bisect_right
from collections import Counter
from statistics import fmean, stdev

from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, WORST_FIRST
from laptime.records.tuning import GateCheck
from laptime.tuning.gates.invariants import report
from laptime.tuning.trial.messages import LoaderPair, LoaderSamples

FEWEST = 20  # samples of each side from which on distributions are compared
CRITICAL = 1.949  # of the two-sample Kolmogorov-Smirnov statistic at 0.1 %: sqrt(-ln(0.001 / 2) / 2)
SHIFT = 4.0  # standard errors that the mean of the same samples may move by
REPEATED = 0.01  # share of samples that may be repeated in addition to the baseline's
TOGETHER = 4  # equal reads of two workers from which on their random numbers count as the same


def checks(pair: LoaderPair, numerics: str, again: LoaderPair | None = None) -> list[GateCheck]:
    """The checks of all training loaders, in order; the worst of each name. No loader is `unknown`. again:
    the baseline's second run against its first: whether it gives the same samples twice."""
    if not pair.candidate or not pair.base:
        return [report("samples", UNDECIDED, "no training loader was found")]
    if len(pair.candidate) != len(pair.base):
        return [report("samples", BROKEN, f"{len(pair.candidate)} training loaders, {len(pair.base)} before")]
    repeats = again is None or all(
        one.hashes == other.hashes for one, other in zip(again.candidate, again.base, strict=False)
    )
    worst: dict[str, GateCheck] = {}
    for candidate, base in zip(pair.candidate, pair.base, strict=True):
        for check in _of_loader(candidate, base, numerics, repeats=repeats):
            so_far = worst.get(check.name, check)
            worst[check.name] = min(so_far, check, key=lambda each: WORST_FIRST.index(each.outcome))
    return list(worst.values())


def _of_loader(
    candidate: LoaderSamples, base: LoaderSamples, numerics: str, *, repeats: bool
) -> list[GateCheck]:
    if not candidate.sizes or not base.sizes:
        return [report("samples", UNDECIDED, "the loader gave nothing")]
    results = [_samples(candidate, base, numerics), _last_batch(candidate, base)]
    if numerics != "algorithm":
        results.append(_batches(candidate, base))
    if not base.iterable:
        results.append(_augmentation(candidate, base))
    results.append(_duplicates(candidate, base))
    if numerics in ("exact", "reassociated") and repeats and candidate.ids == base.ids:
        results.append(_content(candidate, base, numerics))
    if numerics in ("random", "algorithm"):
        results.append(_distribution(candidate, base))
    elif candidate.ids and base.ids:
        results.append(_order(candidate, base))
    return results


def _common(candidate: LoaderSamples, base: LoaderSamples) -> tuple[list[str], list[str], bool]:
    """Ids (hashes of an IterableDataset) of both, as far as they go; whether of a whole epoch."""
    one, other = (candidate.hashes, base.hashes) if base.iterable else (candidate.ids, base.ids)
    whole = candidate.complete and base.complete
    length = None if whole else min(len(one), len(other))
    return one[:length], other[:length], whole


def _samples(candidate: LoaderSamples, base: LoaderSamples, numerics: str) -> GateCheck:
    """Each sample as often as before."""
    one, other, whole = _common(candidate, base)
    if not one or not other:
        return report("samples", UNDECIDED, "the loader does not say which samples it takes")
    missing, extra = Counter(other) - Counter(one), Counter(one) - Counter(other)
    if not missing and not extra:
        of = "an epoch" if whole else f"the first {len(candidate.sizes)} batches"
        return report("samples", KEPT, f"the same {len(one)} samples in {of}", len(one), len(other))
    if base.iterable and numerics == "random" and len(one) == len(other):
        return report("samples", KEPT, f"as many samples, {len(one)}; they cannot be matched", len(one))
    if not whole:
        text = f"the order is another, and an epoch is longer than the {len(one)} samples that were read"
        return report("samples", UNDECIDED, text)
    text = f"{missing.total()} samples of an epoch are missing and {extra.total()} are new or repeated"
    named = next(iter(missing or extra))
    return report("samples", BROKEN, f"{text}, sample {named} among them", len(one), len(other))


def _batches(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    new = len(candidate.sizes) if candidate.complete else candidate.length
    old = len(base.sizes) if base.complete else base.length
    if new is None or old is None:
        return report("batches", UNDECIDED, "an epoch is longer than was read, and its length is unknown")
    if new != old:
        return report("batches", BROKEN, f"{new} batches an epoch, {old} before", new, old)
    return report("batches", KEPT, f"{new} batches an epoch, as before", new, old)


def _last_batch(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    """The ragged end of an epoch is trained on as before."""
    dropped = candidate.drop_last and not base.drop_last
    if candidate.complete and base.complete:
        new, old = sum(candidate.sizes), sum(base.sizes)
        if new >= old:
            return report("last_batch", KEPT, f"{new} samples an epoch", new, old)
        lead = "the last batch is dropped: " if dropped else ""
        return report("last_batch", BROKEN, f"{lead}{new} samples an epoch, {old} before", new, old)
    if dropped and candidate.dataset and candidate.batch_size and candidate.dataset % candidate.batch_size:
        text = f"the last batch is dropped: {candidate.dataset % candidate.batch_size} samples of an epoch"
        return report("last_batch", BROKEN, text, candidate.dataset % candidate.batch_size, 0)
    return report("last_batch", KEPT, "the last batch is kept or dropped as before")


def _order(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    one, other, _ = _common(candidate, base)
    if one == other:
        return report("order", KEPT, "in the same order")
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return report("order", BROKEN, f"another order from sample {place + 1} of the epoch on", place)


def _content(candidate: LoaderSamples, base: LoaderSamples, numerics: str) -> GateCheck:
    """The samples themselves, bit for bit; other rounding is allowed to `reassociated`."""
    length = min(len(candidate.hashes), len(base.hashes))
    unequal = sum(a != b for a, b in zip(candidate.hashes, base.hashes, strict=False))
    if not length:
        return report("content", UNDECIDED, "no sample was read")
    if unequal and numerics != "exact":
        return _distribution(candidate, base)
    text = f"{unequal} of {length} samples differ" if unequal else f"{length} samples bit for bit the same"
    return report("content", BROKEN if unequal else KEPT, text, unequal, 0)


class _Streams:
    """The random numbers of one sample that is read again and again."""

    def __init__(self, draws: list[list[list[str]]]) -> None:
        """`draws`: hashes of the sample by pass, worker and read."""
        passes = [[reads for reads in workers if reads] for workers in draws]
        self.reads = min((len(reads) for workers in passes for reads in workers), default=0)
        rows_by_pass = [[tuple(reads[: self.reads]) for reads in workers] for workers in passes]
        rows = [row for workers in rows_by_pass for row in workers]
        random_rows = [[row for row in workers if len(set(row)) > 1] for workers in rows_by_pass]
        self.is_random = any(random_rows) or len(set(rows)) > 1
        is_enough = self.reads >= TOGETHER
        self.is_shared = is_enough and any(len(set(workers)) < len(workers) for workers in random_rows)
        self.repeats = is_enough and any(random_rows) and rows_by_pass[:1] == rows_by_pass[1:2]


def _augmentation(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    """Random transforms stay random: from worker to worker, from epoch to epoch."""
    name, new, old = "augmentation", _Streams(candidate.draws), _Streams(base.draws)
    if not new.reads or not old.reads:
        return report(name, UNDECIDED, "no sample could be read several times")
    if not old.is_random and not new.is_random:
        return report(name, KEPT, "samples are the same each time they are read")
    if not old.is_random:
        return report(name, BROKEN, "samples that were always the same are random now")
    if not new.is_random:
        return report(name, BROKEN, "random transforms give the same result each time")
    if new.is_shared and not old.is_shared:
        text = f"workers share their random numbers: {candidate.workers} workers, same augmentations"
        return report(name, BROKEN, text)
    if new.repeats and not old.repeats:
        return report(name, BROKEN, "every epoch repeats the augmentations of the one before")
    return report(name, KEPT, "random transforms differ between reads, workers and epochs")


def _duplicates(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    new, old = _find_repeats(candidate), _find_repeats(base)
    if new is None or old is None:
        return report("duplicates", UNDECIDED, "no sample was read")
    outcome = new <= old + REPEATED
    text = f"{new:.1%} of the samples have come up before in the epoch, {old:.1%} in the baseline's"
    return report("duplicates", KEPT if outcome else BROKEN, text, new, old + REPEATED)


def _find_repeats(of: LoaderSamples) -> float | None:
    """Share of samples that are, bit for bit, one that came before."""
    return 1 - len(set(of.hashes)) / len(of.hashes) if of.hashes else None


def _distribution(candidate: LoaderSamples, base: LoaderSamples) -> GateCheck:
    """Means of samples: of the same samples paired, and as distributions; equal bits need neither."""
    if candidate.hashes and Counter(candidate.hashes) == Counter(base.hashes):
        return report("distribution", KEPT, f"{len(base.hashes)} samples bit for bit the same", 0.0, 0.0)
    new = [value for value in candidate.values if value is not None]
    old = [value for value in base.values if value is not None]
    if min(len(new), len(old)) < FEWEST:
        text = f"{min(len(new), len(old))} samples are too few to compare distributions"
        return report("distribution", UNDECIDED, text)
    spread = max(stdev(old), 1e-12)
    text = f"mean {fmean(new):.4g}, {fmean(old):.4g} before; deviation {stdev(new):.4g}, {spread:.4g} before"
    moved = _find_shift(candidate, base)
    if moved > SHIFT:
        text = f"the same samples have moved by {moved:.1f} standard errors: {text}"
        return report("distribution", BROKEN, text, moved, SHIFT)
    distance = kolmogorov_smirnov(new, old)
    limit = CRITICAL * math.sqrt((len(new) + len(old)) / (len(new) * len(old)))
    return report("distribution", KEPT if distance <= limit else BROKEN, text, distance, limit)


def _find_shift(candidate: LoaderSamples, base: LoaderSamples) -> float:
    """Mean difference of the samples that both have, in standard errors; 0 if it is below rounding."""
    ours = dict(zip(candidate.ids, candidate.values, strict=False))
    differences = [
        new - value
        for key, value in zip(base.ids, base.values, strict=False)
        if value is not None and (new := ours.get(key)) is not None
    ]
    if len(differences) < FEWEST:
        return 0.0
    mean = abs(fmean(differences))
    if mean < 1e-3 * max(stdev(value for value in base.values if value is not None), 1e-12):
        return 0.0
    return mean / max(stdev(differences) / math.sqrt(len(differences)), 1e-12)


def kolmogorov_smirnov(one: list[float], other: list[float]) -> float:
    """Largest distance of two empirical distribution functions, 0 to 1."""
    a, b = sorted(one), sorted(other)
    return max(abs(bisect_right(a, value) / len(a) - bisect_right(b, value) / len(b)) for value in (*a, *b))
