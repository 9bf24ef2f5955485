"""Does the server count what was counted here? Its `/metrics` saw the same requests from the other side."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import show
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import Level, ServerCounts, seen_here

TTFT_SLACK = 0.001
"""Seconds: two clocks of one machine, read by two processes."""
_ALONE = "the same again, with nobody else sending to this server"


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where requests or tokens differ by one, or the server's first token came later than ours."""
    server = stats.facts.server if stats else None
    if stats is None or server is None:
        return None
    ours = seen_here(case, stats.facts)
    differ = [
        f"{name}: {theirs:,} there, {mine:,} here"
        for name, theirs, mine in (
            ("requests", server.requests, ours.requests),
            ("prompt tokens", server.prompt, ours.prompt),
            ("output tokens", server.output, ours.output),
        )
        if not _agree(theirs, mine, stats.facts)
    ]
    if differ:
        sentence = f"the server's /metrics disagrees ({'; '.join(differ)})"
        return Check("server_counts", "fail", sentence, _ALONE)
    if _is_later(server, ours):
        sentence = (
            f"the server's /metrics says {show(server.ttft, 's')} to the first token on average, more than "
            f"the {show(ours.ttft, 's')} from sending to reading it here"
        )
        return Check("server_counts", "fail", sentence, "laptime doctor")
    sentence = f"the server's /metrics counts the same {server.requests} requests and their tokens"
    return Check("server_counts", "ok", sentence)


def _agree(theirs: int, ours: int, facts: Level) -> bool:
    """To the unit; of requests that failed here the server may have counted any part."""
    return theirs >= ours if facts.failed else theirs == ours


def _is_later(server: ServerCounts, ours: ServerCounts) -> bool:
    if server.ttft is None or ours.ttft is None or server.first_tokens != ours.first_tokens:
        return False
    return server.ttft > ours.ttft + TTFT_SLACK
