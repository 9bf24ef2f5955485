"""Can the generator send at that rate at all? It tried on loopback first, where no server was in its way."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.loadgen.checks.busy_sender import LIMIT
from laptime.records.case import Case
from laptime.records.check import Check


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where the rate takes more CPU than all senders have."""
    alone = stats.facts.alone if stats else None
    if stats is None or alone is None:
        return None
    most = alone.capacity / LIMIT
    senders = count(stats.facts.senders, "sender")
    rate = stats.facts.rate or stats.answered.value or 0.0
    if rate <= most:
        words = f"on loopback {senders} sent within {show(alone.late, 's')} of their time"
        return Check("self_test", "ok", words)
    words = (
        f"on loopback, without the server, {senders} came to {most:,.0f} requests/s, fewer than {rate:,.0f}/s"
    )
    advice = f"--rate {alone.capacity:.2g}, or more machines for the generator"
    return Check("self_test", "fail", f"the generator is too slow: {words}", advice)
