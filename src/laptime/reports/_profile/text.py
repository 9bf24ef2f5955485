"""A profile on a terminal: verdict, why, next; what adds up is drawn as bars."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from laptime.kit.text import count
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports import _words
from laptime.reports._profile import facts, words
from laptime.reports._profile.facts import Bar
from laptime.reports._profile.tables import Table, difference, tables
from laptime.reports.text_layout import fill, foot, printed, titled, wrapped

_NARROWEST = 48
_INDENT = 15  # the longest topic is "communicated"
_GAP = "  "
_CAUSE = 0.005  # causes of idle time below this share of the step are left to the page
_BAR = 20
_NOTE = 16  # a note beside a bar needs so much room
_NAMES = 24  # bars of all groups begin in one column
_FINDINGS = 5
_WHOLE = 3  # so many findings are told with their change and place
_EIGHTHS = " ▏▎▍▌▋▊▉"


def render(run: Run, *, color: bool = False, width: int = 100) -> str:
    """The report as lines of at most `width` columns; only commands to copy may be longer."""
    profile = run.profile
    assert profile is not None
    width = max(width, _NARROWEST)
    lines = [*_head(run, profile, width), *_why(profile, width)]
    for table in tables(profile, operators=5 if profile.ranks else 8):
        lines += [Text(), *lined(table, width)]
    if not any("straggler" in finding.kind for finding in run.findings):  # it would be said twice
        lines += _told(list(facts.stragglers(profile)), width)
    lines += [*_against(profile, width), *_next(run, profile, width)]
    lines += _told([("warning", text) for text in words.warnings(run)], width, style="bold yellow")
    return printed([*lines, *foot(run)], color=color)


def _head(run: Run, profile: Profile, width: int) -> list[Text]:
    found = [Text(line) for line in wrapped("", f"{run.verb} {words.title(run)}", width, indent=0)]
    word = words.bound(profile)
    found += [Text(), Text("Verdict", style="bold")]
    found += titled(word, words.sentence(profile), width, style="bold", indent=max(_INDENT, len(word) + 2))
    found += [
        Text(),
        *(Text(x, style="dim") for x in wrapped("", " · ".join(words.where(run)), width, indent=0)),
    ]
    return found


def _why(profile: Profile, width: int) -> list[Text]:
    whose = f"   rank {profile.rank}" if profile.ranks and profile.rank is not None else ""
    head = Text.assemble(("Why", "bold"), (whose, "dim"))
    found = [Text(), head, *_fact(("step", facts.step(profile)), width)]
    found += _bars(facts.breakdown(profile), width)
    on_device = bool(profile.overview.devices)
    if bars := [bar for bar in facts.idle(profile) if bar.share >= _CAUSE]:
        found += [*_fact(("idle", facts.idle_sentence(profile)), width), *_bars(bars, width)]
    if bars := facts.phases(profile):
        found += (
            [*_fact(("host", "the loop in its phases"), width), *_bars(bars, width)] if not on_device else []
        )
    return found + _facts(facts.facts(profile), width)


def _facts(told: list[facts.Fact], width: int) -> list[Text]:
    return [line for fact in told for line in _fact(fact, width)]


def _fact(fact: facts.Fact, width: int, *, style: str = "dim") -> list[Text]:
    return titled(fact[0], fact[1], width, style=style, indent=_INDENT)


def _told(told: list[facts.Fact], width: int, *, style: str = "dim") -> list[Text]:
    found, before = [Text()], ""
    for topic, text in told:
        found += _fact((topic if topic != before else "", text), width, style=style)
        before = topic
    return found if told else []


def _bars(bars: list[Bar], width: int) -> list[Text]:
    """Name, time, share and bar a line; the whole width of a bar is the step."""
    names = _NAMES if width >= 72 else max((cell_len(bar.name) for bar in bars), default=0)
    times = max((len(words.time(bar.ns)) for bar in bars), default=0)
    found = []
    for bar in bars:
        line = f"{_GAP}{bar.name}{fill(bar.name, names)}{_GAP}{words.time(bar.ns):>{times}}"
        line += f"{_GAP}{words.percent(bar.share):>6}{_GAP}"
        room = width - cell_len(line)
        drawn = bar_drawn(bar.share, min(_BAR, room)) if room > 0 else ""
        note = f"{fill(drawn, _BAR)}{_GAP}{_note(bar, room - _BAR - len(_GAP))}"
        text = Text(line)
        text.append(drawn, style="cyan")
        if (bar.note or bar.place) and room >= _BAR + _NOTE:
            text.append(note, style="dim")
        found.append(text)
    return found


def _note(bar: Bar, room: int) -> str:
    """What and where, as far as there is room; half a place is none."""
    both = f"{bar.note} ({bar.place})" if bar.note and bar.place else bar.note or bar.place
    return both if len(both) <= room else words.shortened(bar.note or bar.place, room)


def bar_drawn(share: float, width: int) -> str:
    """A bar to an eighth of a column."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()) or "▏"


def lined(table: Table, width: int) -> list[Text]:
    """Columns under their titles; where they do not fit, names are cut and then the last numbers left out."""
    columns, rows = list(table.columns), [list(row) for row in table.rows]
    if table.all > len(rows):
        columns[0] += f" ({len(rows)} of {table.all:,})"
    left = {columns[0], *table.left}
    while True:
        sizes = [max(map(cell_len, [title, *(row[i] for row in rows)])) for i, title in enumerate(columns)]
        over = sum(sizes) + len(_GAP) * len(sizes) - width
        if over <= 0 or len(columns) <= 2:
            break
        if sizes[0] - over >= 24:
            sizes[0] -= over
            break
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    sizes[0] = max(sizes[0] - max(over, 0), 10) if len(columns) <= 2 else sizes[0]

    def line(cells: list[str]) -> str:
        cells = [words.cut(cells[0], sizes[0]), *cells[1:]]
        return _GAP + _GAP.join(
            cell + fill(cell, size) if title in left else fill(cell, size) + cell
            for cell, size, title in zip(cells, sizes, columns, strict=True)
        )

    return [Text(line(columns), style="bold"), *(Text(line(row)) for row in rows)]


def _against(profile: Profile, width: int) -> list[Text]:
    seen, table = profile.against, difference(profile)
    if seen is None or table is None:
        return []
    found = [Text(), Text(f"Against {_words.printable(seen.before)}", style="bold")]
    found += titled("", seen.sentence, width, indent=len(_GAP))
    return found + (lined(table, width) if table.rows else [])


def _next(run: Run, profile: Profile, width: int) -> list[Text]:
    found = [Text(), Text("Next", style="bold")]
    if not run.findings:
        return [*found, Text(f"{_GAP}nothing found that a known change would mend")]
    for number, finding in enumerate(run.findings[:_FINDINGS], 1):
        gain = words.gain(finding, profile.overview.step_ns)
        lead = f"{gain}: " if gain else ""
        style = "bold yellow" if finding.severity == "problem" else "bold"
        topic = f"{_GAP}{number} {finding.severity}"
        found += titled(topic, lead + finding.sentence, width, style=style, indent=_INDENT)
        steps = words.steps_to_take(finding)
        if (change := words.mended(finding)) and (number <= _WHOLE or not steps):
            found += titled("", change, width, indent=_INDENT)
        for step in steps:
            found += titled("", f"next: {step}", 0, indent=_INDENT)
    if more := len(run.findings) - _FINDINGS:
        found += [Text(f"{_GAP}and {count(more, 'more finding')}: -o report.html")] if more > 0 else []
    return found
