"""What a benchmark method lost to others, from counters that were read around it.

    waited     its threads could run but waited for a CPU that other programs used     schedstat, /proc/stat
    stolen     the hypervisor gave the machine's CPUs to others                        /proc/stat
    throttled  the container's CPU quota stopped its process                           cpu.stat

The thresholds are those of `measure.labels`; here the sample is a whole method, with all that it does beside
what it times. Not seen: threads that came and ended between two looks, half a second apart; a lower clock;
who else used memory, disk or network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from laptime.edges.perfzero.process import Ended, Event, Look
from laptime.kit.units import show
from laptime.measure.labels import OTHERS_TICKS, WAITED_SHARE, waited_for_others
from laptime.probes.others import busy_seconds, stolen_seconds
from laptime.records.series import Label


class Disturbance(NamedTuple):
    """What hit a trial.

    Attributes:
        label: its causes; NONE where nothing is known of any.
        share: of the time that the worst of them took; threads that waited together add up, above 1 too.
        words: `its threads waited for a CPU that other programs used, 3.10 s in 8.20 s`.
    """

    label: Label
    share: float
    words: str


def disturbance(ended: Ended, *, virtual: bool) -> Disturbance:
    """What is known to have disturbed a method that came to its end.

    Args:
        virtual: the machine is a guest, whose CPU time can be stolen.
    """
    label, share, words = Label.NONE, 0.0, []
    for flag, seconds, of, verb in _losses(ended, virtual):
        label, share = label | flag, max(share, seconds / of)
        words.append(f"{verb}, {show(seconds, 's')} in {show(of, 's')}")
    return Disturbance(label, share, "; ".join(words))


def _losses(ended: Ended, virtual: bool) -> list[tuple[Label, float, float, str]]:
    """Label, seconds lost, seconds of wall time, and words of each loss that counts."""
    losses = []
    if ended.throttled is not None and ended.throttled > WAITED_SHARE * ended.seconds:
        words = "was stopped by the container's CPU quota"
        losses.append((Label.THROTTLED, ended.throttled, ended.seconds, words))
    start, end = ended.event("started"), ended.event("ended")
    if start is None or end is None or "clock" not in start:
        return losses
    seconds = float(end["clock"]) - float(start["clock"])
    looks = [each for each in ended.looks if start["unix"] <= each.unix <= end["unix"]]
    waited = _most(start, end, "waited", looks)
    if waited is not None and _for_others(waited, seconds, _others(start, end, looks, seconds)):
        words = "its threads waited for a CPU that other programs used"
        losses.append((Label.WAITED, waited, seconds, words))
    stolen = _between(start, end, stolen_seconds)
    if virtual and stolen is not None and stolen > WAITED_SHARE * seconds:
        losses.append((Label.STOLEN, stolen, seconds, "the hypervisor gave its CPUs to others"))
    return losses


def _most(start: Event, end: Event, name: str, looks: list[Look]) -> float | None:
    """Seconds of a counter in the method: its process's, or those of its family where they are more."""
    if name not in start or name not in end:
        return None
    own = max(0.0, float(end[name]) - float(start[name]))
    field = "used" if name == "cpu" else name
    family = getattr(looks[-1], field) - getattr(looks[0], field) if looks else 0.0
    return max(own, float(family))


def _others(start: Event, end: Event, looks: list[Look], seconds: float) -> float | None:
    """CPUs that all but the benchmark used while the method ran; None where the system does not tell."""
    busy, own = _between(start, end, busy_seconds), _most(start, end, "cpu", looks)
    return None if busy is None or own is None or seconds <= 0 else (busy - own) / seconds


def _between(start: Event, end: Event, read: Callable[[bytes], float | None]) -> float | None:
    before, after = (read(str(event.get("machine", "")).encode()) for event in (start, end))
    return None if before is None or after is None else after - before


def _for_others(waited: float, seconds: float, others: float | None) -> bool:
    if (
        others is not None and others * seconds < OTHERS_TICKS
    ):  # too little for its ticks to show whose it was
        return False
    around = None if others is None else np.array([others])
    return bool(waited_for_others(np.array([waited]), np.array([seconds]), around)[0])
