"""A short block of the device's peak, between the blocks of the cases: in their minutes, with their evidence.

A peak that was measured once tells of its own half second. Machines change their speed within seconds, so the
share that a model reaches is only worth quoting against a peak from beside its samples.

    call, sync | t0 call call ... sync t1        one sample: FLOP/s over the whole of about `SECONDS`

The first call is not timed: the caches and clocks that it finds are the model's.
"""

from __future__ import annotations

from laptime.kit.clock import Clock
from laptime.measure import loop
from laptime.measure.protocol import PeakWork
from laptime.probes.scheduler import Evidence
from laptime.records.series import Label, Metric, Series

SECONDS = 0.02
"""Of the timed calls of one block."""

LOST_SHARE = 0.02
"""Of a block: what others took beyond it is a disturbance, as in `labels`, which workers do not import."""

PEAK = Metric(
    tag="evidence/peak",
    unit="FLOP/s",
    title="measured peak",
    better="higher",
    meaning="Rate of a large matrix product in the model's dtype, in short blocks between the cases'.",
    lies_when="A product of this size does not fill the device; other threads or dtypes than the model's.",
)


def peak_block(work: PeakWork, *, evidence: Evidence | None, clock: Clock) -> Series:
    """One sample of the peak in FLOP/s, labelled with what disturbed it."""
    for _ in range(2):
        began = clock.now()
        work.call()
        work.sync()
        once = max(clock.now() - began, 1e-7)
    calls = max(1, int(SECONDS / once))
    if evidence is not None:
        evidence.refresh_threads()
    tape = loop.saturated(
        work, seconds=0.0, min_calls=1, max_calls=calls, evidence=evidence, clock=clock, estimate=once
    )
    return Series(
        metric=PEAK,
        samples=[work.flops / max(seconds, 1e-12) for seconds in tape.seconds],
        at=[round(at, 6) for at in tape.start],
        label=_labels(tape),
        calls=tape.calls,
        probe="wall",
        clock="perf_counter",
    )


def _labels(tape: loop.Tape) -> list[int]:
    columns = (
        (Label.WAITED, tape.waited),
        (Label.STOLEN, tape.stolen),
        (Label.STOLEN, tape.missing),
        (Label.THROTTLED, tape.throttled),
    )
    label = [0] * len(tape.seconds)
    for bit, column in columns:
        for index, lost in enumerate(column):
            label[index] |= int(bit) if lost > LOST_SHARE * tape.seconds[index] else 0
    return label
