"""Are tokens what the server counted, and as many as were asked for?"""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check

ROUGHLY = 0.1


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail where tokens were not counted; note answers that ended early, and prompts of another length."""
    facts = stats.facts if stats else None
    if stats is None or facts is None or facts.asked is None or stats.tokens is None:
        return None
    if facts.uncounted:
        return Check(
            "tokens",
            "fail",
            f"the server told no usage for {facts.uncounted} of {facts.answered} answers: their tokens are "
            "not known, and chunks are no tokens",
            "a server that knows stream_options.include_usage",
        )
    made = stats.tokens
    if facts.chunks > made.output * facts.answered + 0.5:
        more = (
            f"{facts.chunks} chunks held text, the server counted {made.output * facts.answered:.0f} tokens"
        )
        return Check("tokens", "fail", f"the server's usage cannot be true: {more}")
    if made.output > facts.asked[1] + 0.001:
        more = f"it counted {made.output:.1f} tokens an answer, at most {facts.asked[1]} were asked for"
        return Check("tokens", "fail", f"the server's usage cannot be true: {more}")
    if made.short:
        return Check(
            "tokens",
            "warn",
            f"{percent(made.short)} of the answers are shorter than the {facts.asked[1]} tokens asked for, "
            f"{made.output:.1f} on average: do not compare them with full ones",
            "a server that knows ignore_eos",
        )
    if abs(made.prompt - facts.asked[0]) > ROUGHLY * facts.asked[0]:
        return Check(
            "tokens", "note", f"prompts had {made.prompt:.0f} tokens, {facts.asked[0]} were asked for"
        )
    return Check("tokens", "ok", f"{made.prompt:.0f} tokens in, {made.output:.0f} out, as the server counts")
