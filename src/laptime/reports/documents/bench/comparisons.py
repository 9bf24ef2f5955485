"""Candidates against baselines: in sentences, and as strips on one axis."""

import math
from collections.abc import Sequence
from functools import partial
from operator import itemgetter

from markupsafe import Markup

from laptime.analysis import compare
from laptime.kit.text import count
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Cell, Headline, Section, Text
from laptime.reports.fields import Field, tabulate
from laptime.reports.page.svg import Scale, drawing, el

_STRIP = 260.0
Described = tuple[Comparison, str, str]  # a comparison, its sides in words, and what came of it
_MOST = 3  # comparisons that the verdict names


def is_per_item(comparison: Comparison) -> bool:
    """Whether it is one of two batch sizes: of the time an item takes, not of a call."""
    return comparison.metric.startswith("time per item")


def sum_up(described: Sequence[Described], commands: list[str]) -> Headline:
    """The word of the comparison, or the words of several, the first of them in full; at least one."""
    words_ = list(dict.fromkeys(each.word for each, _, _ in described))
    shown = [
        f"{sides}: {_without_word(each, said) if len(words_) == 1 else said}"
        for each, sides, said in described
    ]
    more = f"; and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
    decided = [each.speedup for each, *_ in described if each.word in ("faster", "slower")]
    factors = [max(speedup, 1 / speedup) for speedup in decided]
    return Headline(
        words_[0] if len(words_) == 1 else "different",
        "noisy" if "unclear" in words_ else "neutral",
        "; ".join(shown[:_MOST]) + more,
        next=commands,
        figure=f"{factors[0]:.2f}x" if factors and len(described) == 1 else "",
    )


def _without_word(each: Comparison, sentence: str) -> str:
    return sentence.removeprefix(each.word).removeprefix(": ")


def strips(described: Sequence[Described]) -> Section:
    """A row a comparison, with a strip: the margin, 1.0, interval and estimate; no blocks without any."""
    x = _scale([each for each, _, _ in described])
    fields = [
        Field("candidate against baseline", itemgetter(1)),
        Field("word", lambda row: Cell(row[0].word, tone=row[0].word)),
        Field(
            "slower · faster", lambda row: Cell("", draw=partial(_draw, row[0], x)), draw=partial(_axis, x)
        ),
        Field("how much", lambda row: _without_word(row[0], row[2])),
        Field("evidence", lambda row: _evidence(row[0]), "number"),
    ]
    margin = f"{100 * described[0][0].margin:.1f} %" if described else ""
    legend = (
        f"Above 1 the candidate is faster. Shaded: the margin of {margin} within which nothing is claimed. "
        "“Same” means that the whole interval lies in it; “unclear” means that more samples are needed."
    )
    blocks = [tabulate("comparison", fields, described), Text(legend)] if described else []
    return Section("comparisons", "Comparisons", blocks, detail="page")


def _evidence(each: Comparison) -> Cell:
    around = f"{each.processes} + {each.processes} processes"
    return Cell(count(each.pairs, "pair"), each.pairs, interval=around)


def sentence_of(each: Comparison) -> str:
    """Return the result of a comparison in words."""
    told = each.sentence or compare.sentence(each.word, each.speedup, each.ci95, each.margin)
    return words.printable(told)


def describe(run: Run) -> list[Described]:
    """The comparisons of a run, with words for their cases."""
    cases = {case.key: case for case in run.cases}
    made = []
    for each in run.comparisons:
        candidate, baseline, shared = words.printable(each.candidate), words.printable(each.baseline), ""
        if each.candidate in cases and each.baseline in cases:
            candidate, baseline, shared = words.apart(cases[each.candidate], cases[each.baseline], run)
        lead = f"{shared}: " if shared else ""
        lead += "per item, " if is_per_item(each) else ""
        made.append((each, f"{lead}{candidate} against {baseline}", sentence_of(each)))
    return made


def _axis(x: Scale) -> Markup:
    ticks = [(value, f"{value:g}x") for value in _ticks(x.high)]
    texts = (el("text", text, x=x(value), y=12, class_="tick middle") for value, text in ticks)
    lines = (el("line", x1=x(value), x2=x(value), y1=16, y2=20, class_="axis") for value, _ in ticks)
    return drawing(_STRIP, 20, *texts, *lines, label="times the baseline's speed", class_="strip chart")


def _scale(comparisons: Sequence[Comparison]) -> Scale:
    ends = [v for each in comparisons for v in (each.speedup, *each.ci95) if math.isfinite(v) and v > 0]
    widest = min(max([abs(math.log(v)) for v in ends] + [math.log(1.05)]), math.log(1e6)) * 1.15
    return Scale(math.exp(-widest), math.exp(widest), 8, _STRIP - 8, log=True)


def _ticks(high: float) -> list[float]:
    """1 and a round factor to each side of it, as large as the axis can show without touching its edge."""
    factors = (1000, 100, 10, 5, 4, 3, 2, 1.5, 1.25, 1.2, 1.1, 1.05, 1.02)
    factor = next((f for f in factors if math.log(f) <= 0.85 * math.log(high)), 1.02)
    return [1 / factor if factor in (1000, 100, 10, 5, 4, 2, 1.25) else round(1 / factor, 3), 1.0, factor]


def _draw(each: Comparison, x: Scale) -> Markup:
    low, high = (
        x(v) if math.isfinite(v) and v > 0 else edge
        for v, edge in zip(each.ci95, (x.start, x.end), strict=True)
    )
    left, right = x(1 / (1 + each.margin)), x(1 + each.margin)
    parts = [
        el("rect", x=left, width=max(1.0, right - left), y=0, height=32, class_="margin"),
        el("line", x1=x(1.0), x2=x(1.0), y1=0, y2=32, class_="axis"),
        el("line", x1=low, x2=high, y1=16, y2=16, class_=f"interval {each.word}"),
        el("line", x1=low, x2=low, y1=11, y2=21, class_=f"interval {each.word}"),
        el("line", x1=high, x2=high, y1=11, y2=21, class_=f"interval {each.word}"),
    ]
    if math.isfinite(each.speedup) and each.speedup > 0:
        parts.append(el("circle", cx=x(each.speedup), cy=16, r=4.5, class_=f"estimate {each.word}"))
    return drawing(
        _STRIP, 32, *parts, label=f"{each.word}, {each.speedup:.3g} times the speed", class_="strip"
    )
