"""What a language model's phases come to: tokens per second, and what decoding moves through memory."""

from __future__ import annotations

from laptime.analysis.stat import Stat
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import _words as words

Stats = dict[str, Stat]


def token_rows(run: Run, stats: list[Stats]) -> list[tuple[str, str]]:
    """(topic, text) of each case of a language model; nothing of others."""
    rows = []
    for case, numbers in zip(run.cases, stats, strict=True):
        if (rate := numbers.get("tokens/rate")) is None:
            continue
        text = f"{words.label(case, run)}: {rate.text.removesuffix('/s')} tokens/s{_interval(rate)}"
        if (moved := numbers.get("bytes/token")) is not None and moved.value:
            text += f"; at least {show(moved.value, 'B')} moved per token, {numbers['bytes/rate'].text}"
            if (share := numbers.get("bytes/share")) is not None:
                text += f", {share.text} of the measured copy bandwidth"
        rows.append(("tokens", text))
    return rows


def _interval(stat: Stat) -> str:
    return "" if stat.ci95 is None else f" [{stat.ci95[0]:.3g}, {stat.ci95[1]:.3g}]"
