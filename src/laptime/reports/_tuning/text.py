"""A session of `tune` on a terminal: the gain, what bounds the step, the ladder, the gates, the patch."""

from __future__ import annotations

from rich.text import Text

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.records.tuning import Gate, Rung, Tuning
from laptime.reports import _words
from laptime.reports._profile.text import bar_drawn, lined
from laptime.reports._profile.words import cut
from laptime.reports._tuning import rows, words
from laptime.reports.text_layout import fill, foot, printed, titled, wrapped

STYLES = {"trusted": "bold green", "noisy": "bold yellow", "invalid": "bold red", "unknown": "bold"}
_NARROWEST = 48
_INDENT = 12
_GAP = "  "
_WORDS = {"faster": "green", "smaller": "green", "slower": "red", "larger": "red", "failed": "red"}
_RULED_OUT = 4
_NAMES = 24
_SUGGESTED = 25  # lines of a diff
_WIDE = 80  # below, intervals of the ladder are left to the other reports


def render(run: Run, *, color: bool = False, width: int = 100) -> str:
    """The report as lines of at most `width` columns; only commands to copy may be longer."""
    tuning = run.tuning
    assert tuning is not None
    width = max(width, _NARROWEST)
    lines = [
        *_head(run, width),
        *_bound(tuning, width),
        *_ladder(tuning, width),
        *_suggested(tuning, width),
        *_sameness(tuning, width),
        *_facts("Patch", rows.patch(tuning), width),
        *_next(run),
    ]
    found: list[rows.Fact] = [(f.severity, f.sentence) for f in run.findings]
    found += [(check.outcome, check.sentence) for check in run.checks if check.outcome != "ok"]
    lines += _facts("", [*found, *_failures(run)], width)
    lines += [Text(), *titled("Session", words.spent(run), width, style="bold")]
    return printed([*lines, *foot(run)], color=color)


def _head(run: Run, width: int) -> list[Text]:
    found = [Text(line) for line in wrapped("", f"{run.verb} {words.title(run)}", width, indent=0)]
    own = words.verdict(run)
    lines = wrapped("", f"{own.word}: {_words.printable(own.sentence)}", width, indent=0)
    head = Text(lines[0])
    head.stylize(STYLES[own.tone], 0, len(own.word))
    found += [head, *map(Text, lines[1:]), Text()]
    return found + [
        Text(line, style="dim") for line in wrapped("", " · ".join(words.where(run)), width, indent=0)
    ]


def _facts(head: str, told: list[rows.Fact], width: int) -> list[Text]:
    """Topics under a heading; a topic is written once."""
    found, before = [Text(), *([Text(head, style="bold")] if head else [])], ""
    for topic, text in told:
        found += titled(f"{_GAP}{topic if topic != before else ''}", text, width, indent=_INDENT)
        before = topic
    return found if told else []


def _bound(tuning: Tuning, width: int) -> list[Text]:
    found = _facts("Bound", rows.bounds(tuning), width)
    seen = rows.shares(tuning)
    if not seen:
        return found
    both = seen[0].after is not None
    names = min(max(len(each.words) for each in seen), _NAMES)
    room = (width - names - len(_GAP) * (3 if both else 2)) // (2 if both else 1) - 19
    bar = max(0, min(20, room))
    for each in seen:
        name = cut(each.words, names)
        line = Text(f"{_GAP}{name}{fill(name, names)}{_GAP}")
        sides = [(each.before, each.before_share)]
        if each.after is not None and each.after_share is not None:
            sides.append((each.after, each.after_share))
        for seconds, share in sides:
            line.append(f"{show(seconds, 's'):>8}{_GAP}" if room >= 0 else "")
            line.append(f"{_words.percent(share):>6}{_GAP}")
            made = bar_drawn(share, bar) if bar > 3 else ""
            line.append(made, style="cyan")
            line.append(f"{fill(made, bar)}{_GAP}" if bar > 3 else "")
        found.append(line)
    return found


def _ladder(tuning: Tuning, width: int) -> list[Text]:
    shown, seen = rows.ladder(tuning, intervals=width >= _WIDE)
    found: list[Text] = []
    if seen:
        found += [Text(), Text("Ladder", style="bold")]
        head, *lines = lined(shown, width)
        found.append(head)
        for line, rung in zip(lines, seen, strict=True):
            found += [_toned(line, rung), *_reason(rung, width)]
    told = [("control", text)] if (text := rows.control(tuning)) else []
    told += rows.untried(tuning)
    if tuning.ruled_out:
        named = [f"{_words.printable(n)} ({_words.printable(w)})" for n, w in tuning.ruled_out.items()]
        more = len(named) - _RULED_OUT
        text = ", ".join(named[:_RULED_OUT]) + (f" and {more} more: --json" if more > 0 else "")
        told.append(("ruled out", text))
    return found + _facts("" if seen else "Ladder", told, width)


def _suggested(tuning: Tuning, width: int) -> list[Text]:
    """The beginning of the diff of what is never applied on its own."""
    told = rows.suggestions(tuning).rstrip("\n").split("\n")
    lines = [_words.printable(line.expandtabs(4)) for line in told if not line.startswith("diff --git ")]
    if lines == [""]:
        return []
    found = [Text(), Text("Suggested, not applied", style="bold")]
    found += [Text(f"{_GAP}{cut(line, width - len(_GAP))}", style="dim") for line in lines[:_SUGGESTED]]
    more = len(lines) - _SUGGESTED
    return found + ([Text(f"{_GAP}and {count(more, 'line')} more: --json", style="dim")] if more > 0 else [])


def _toned(line: Text, rung: Rung) -> Text:
    """Kept ones stand out, lost ones step back."""
    line.stylize("bold" if rung.kept and not rung.dropped else "dim")
    if rung.verdict in _WORDS:
        line.highlight_words([f"  {rung.verdict} "], style=_WORDS[rung.verdict])
    return line


def _reason(rung: Rung, width: int) -> list[Text]:
    told = [words.reason(rung)] if words.reason(rung) else []
    if rung.gate.word in ("failed", "undecided"):
        told += [rows.asked(check) for check in rows.doubts(rung.gate)]
    return [Text(line, style="dim") for text in told for line in wrapped("", text, width, indent=4)]


def _sameness(tuning: Tuning, width: int) -> list[Text]:
    told = [("gate", text)] if (text := rows.gated(tuning.gate)) else []
    told += _doubts(tuning.gate)
    if text := rows.convergence(tuning):
        told.append(("trains", text))
    return _facts("Same training?", told, width)


def _doubts(gate: Gate) -> list[rows.Fact]:
    return [({"fail": "failed"}.get(c.outcome, c.outcome), rows.asked(c)) for c in rows.doubts(gate)]


def _failures(run: Run) -> list[rows.Fact]:
    found: list[rows.Fact] = []
    for case in run.cases:
        if case.failure is not None:
            told = [case.failure.what, case.failure.why and f"why: {case.failure.why}"]
            found.append((case.status, "; ".join(filter(None, told))))
    return found


def _next(run: Run) -> list[Text]:
    steps = rows.next_steps(run)
    found = [Text(), Text("Next", style="bold"), *(Text(f"{_GAP}{step}") for step in steps)]
    return found if steps else []
