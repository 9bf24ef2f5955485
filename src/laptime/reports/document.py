"""What a report says, whatever kind of run it is about: builders make a `Document`, formats show any.

Every text in it is plain: formats escape, shorten and lay out. Numbers are in SI base units unless a column's
kind says otherwise. Only the page calls what is lazy (`Chart.plot`), only machines call `Document.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from markupsafe import Markup
from msgspec import Struct

from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.reports.drawing import Drawing

Detail = Literal["brief", "folded", "page", "text"]
"""Where a part is shown. brief: everywhere; folded: not on a terminal, and Markdown folds such sections away;
page: only on the page and in CSV; text: on a terminal and in Markdown, because the page draws it."""
Kind = Literal["text", "code", "time", "short", "change", "bytes", "rate", "share", "count", "number"]
"""How a column shows raw values.

text: words; code: names from programs, in a fixed-width font; time: nanoseconds, one unit a column on the
page; short: nanoseconds, each in its own unit; change: nanoseconds with a sign; bytes: bytes; rate: bytes per
second; share: 0 to 1 as per cent; count: with thousands separators; number: three digits, or none after the
point where all are whole.
"""
Value = str | float | int | None
Tone = Literal["trusted", "noisy", "invalid", "neutral", "unknown"]
Outcome = Literal["passed", "failure", "error", "skipped"]


class Headline(Struct, frozen=True):
    """The first thing that is read.

    Attributes:
        word: one or a few words: `trusted`, `1.8x`, `input bound`.
        figure: the number that people came for, unless the word has it: the page's title and first line.
        next: commands to type, the best first.
        share: 0 to 1, drawn as a dial on the page instead of the tone's sign.
    """

    word: str
    tone: Tone
    sentence: str
    next: Sequence[str] = ()
    share: float | None = None
    figure: str = ""


class Card(Struct, frozen=True):
    """A key number: `interval` and `note` are smaller lines under it."""

    title: str
    figure: str
    note: str = ""
    interval: str = ""


class Block(Struct, frozen=True, kw_only=True):
    """A part of a section."""

    detail: Detail = "brief"


class Text(Block, frozen=True):
    """A quiet sentence."""

    text: str


class Facts(Block, frozen=True):
    """Lines of (topic, text), those with a text; an empty topic goes on with the one before.

    `next: COMMAND` is never broken.
    """

    rows: Sequence[tuple[str, str]]


class Bar(Struct, frozen=True):
    """One bar.

    Attributes:
        value: its length, on the scale of the block.
        text: the value in words.
        share: 0 to 1, printed beside the text where it is not None.
        kind: class of its colour (`p-KIND` on the page).
        parts: stacked inside the bar instead of one colour.
        interval: low and high end in the unit of `value`, drawn as a whisker.
    """

    name: str
    value: float = 0.0
    text: str = ""
    share: float | None = None
    kind: str = ""
    note: str = ""
    parts: Sequence[Bar] = ()
    interval: tuple[float, float] | None = None
    detail: Detail = "brief"


class Bars(Block, frozen=True):
    """Bars on one scale.

    Attributes:
        whole: the value of a bar of full width; the longest bar's where it is None.
        stacked: the page draws all rows as one band with a legend; elsewhere each row is a line.
        legend: names of the kinds of parts.
    """

    rows: Sequence[Bar]
    title: str = ""
    note: str = ""
    whole: float | None = None
    stacked: bool = False
    legend: Sequence[Bar] = ()


class Cell(Struct, frozen=True):
    """A number or word that is shown as it is.

    Attributes:
        value: the raw number, for sorting and CSV.
        interval: `[25.9, 26.8] ms`, the 95 % interval.
        margin: `±1.2 %`, half of it as a share of the value.
        note: why there is no value, or what was excluded from it.
        tone: class of its colour: a verdict's word, `faster`, `failed`.
        draw: what the page shows instead of the text.
    """

    text: str
    value: float | None = None
    interval: str = ""
    margin: str = ""
    note: str = ""
    tone: str = ""
    draw: Callable[[], Markup] | None = None


def measured(quantity: Quantity) -> Cell:
    """A quantity with its interval."""
    return Cell(text=quantity.text, value=quantity.value, interval=quantity.interval_text)


def number(value: float | None, unit: str, ci95: tuple[float, float] | None = None) -> Cell:
    """A number with its unit, and its interval where it has one."""
    return Cell(text="-") if value is None else measured(Quantity.of(value, ci95, unit=unit))


class Extra(Struct, frozen=True, kw_only=True):
    """Lines or a table that a row or a finding folds away, a call stack for example."""

    caption: str = ""
    lines: Sequence[str] = ()
    table: Table | None = None


class Column(Struct, frozen=True):
    """A column.

    Attributes:
        regime: stands under the title.
        note: what it means and when it lies.
        bar: its values are also drawn as bars.
        draw: stands under the title on the page, an axis for example.
        priority: a terminal that is too narrow leaves out the highest first; 0 always stays.
    """

    title: str
    kind: Kind = "text"
    regime: str = ""
    note: str = ""
    bar: bool = False
    draw: Callable[[], Markup] | None = None
    priority: int = 0
    detail: Detail = "brief"


class Row(Struct, frozen=True):
    """A row: one raw value or ready `Cell` a column.

    Attributes:
        key: what links call it: `TABLE/KEY`.
        full: the whole of a first cell that is shortened.
        notes: sentences under the row.
        depth: in a tree, 0 for a root.
        tone: `strong` stands out, `weak` steps back; a verdict's word colours the row.
    """

    cells: Sequence[Value | Cell]
    key: str = ""
    full: str = ""
    notes: Sequence[str] = ()
    extras: Sequence[Extra] = ()
    depth: int | None = None
    tone: str = ""
    detail: Detail = "brief"


class Table(Block, frozen=True):
    """Rows and columns. The page sorts, searches and folds them; a row's anchor is `ID-INDEX`.

    Attributes:
        most: rows on the page; those further down that a finding links to are there, too. A terminal shows
            the rows with detail brief, Markdown those that are folded, too.
        total: rows that there are, where only some are listed; 0 where all are.
        notes_title: what Markdown and CSV call the column of the rows' notes.
        tree: rows have a depth and can be folded.
    """

    id: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    most: int = 400
    total: int = 0
    notes_title: str = "why"
    tree: bool = False

    @property
    def has_intervals(self) -> bool:
        """Whether a note has to say what stands in brackets."""
        return any(isinstance(cell, Cell) and cell.interval for row in self.rows for cell in row.cells)


class Views(Block, frozen=True):
    """Several views of one thing: the page shows one at a time, a terminal the first."""

    tables: Sequence[Table]


class Advice(Block, frozen=True, kw_only=True):
    """A finding.

    Attributes:
        links: (`TABLE/KEY`, words) of the rows that it rests on.
        stack: where in the program it is.
    """

    severity: str
    sentence: str
    gain: str = ""
    share: str = ""
    change: str = ""
    place: str = ""
    commands: Sequence[str] = ()
    stack: Sequence[Extra] = ()
    evidence: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()


class Notice(Struct, frozen=True):
    """One line of what a check or a comparison says: `level` is its outcome or word."""

    level: str
    text: str
    next: str = ""


class Notices(Block, frozen=True):
    """What checks and small findings say, one line each."""

    rows: Sequence[Notice]


class Failure(Block, frozen=True, kw_only=True):
    """What could not be measured: `status` is failed, skipped or cut short."""

    status: str
    name: str
    what: str
    why: str = ""
    next: str = ""


class Code(Block, frozen=True):
    """Source or a patch; `brief` lines of it are shown on a terminal."""

    text: str
    language: str = ""
    title: str = ""
    brief: int = 0


class Chart(Block, frozen=True):
    """A drawing, which only the page has.

    Attributes:
        plot: makes it.
        half: it stands beside another, and is drawn once, for half of the page.
    """

    title: str
    plot: Callable[[], Drawing]
    half: bool = False
    note: str = ""


class Stage(Block, frozen=True, kw_only=True):
    """Ranges by lane, or trees of calls, that the page's script draws and moves in."""

    kind: Literal["timeline", "calls"]
    data: Callable[[], dict[str, Any]]


class Panels(Block, frozen=True):
    """Blocks side by side where there is room."""

    blocks: Sequence[Block]


class Group(Block, frozen=True):
    """Blocks under a smaller heading; `id` can be linked to."""

    title: str
    blocks: Sequence[Block]
    id: str = ""
    note: str = ""


class Folded(Block, frozen=True):
    """Blocks that the page and Markdown fold away under a title; on the page they may be `open` at first."""

    title: str
    blocks: Sequence[Block]
    open: bool = False


class Section(Struct, frozen=True):
    """Blocks of one topic.

    Attributes:
        id: anchor on the page, and name in CSV.
        note: explains the section on the page; what everybody must read is a `Text`.
        headed: whether a terminal and Markdown write the title; the page does where it is not `lead`, too.
        lead: the page shows it right after the verdict, before the cards.
        folded: Markdown folds it away under its title.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    note: str = ""
    detail: Detail = "brief"
    headed: bool = True
    lead: bool = False
    folded: bool = False


class TestCase(Struct, frozen=True):
    """One test of the JUnit report: a case, a check, a finding, a gate."""

    __test__ = False  # not one of pytest's

    group: str
    name: str
    outcome: Outcome = "passed"
    kind: str = ""
    sentence: str = ""
    next: str = ""
    seconds: float = 0.0


class Document(Struct, frozen=True, kw_only=True):
    """All that a report says.

    Attributes:
        run: what it is about; None for what is not stored (doctor, history).
        conditions: what holds for all of it: machine, versions, settings.
        warnings: sentences to read before any number.
        brief: what a terminal shows beside the verdict unless all is asked for: the numbers, a line or few.
        answers: the verdict is the answer itself, and goes before `brief`; where it only says whether to
            trust the numbers, they go first.
        data: the document that `--json` prints; the page has it, too, where it is `embedded`.
        about: the last line of the page.
    """

    verb: str
    title: str
    verdict: Headline
    sections: Sequence[Section]
    data: Callable[[], Any]
    embedded: bool = False
    run: Run | None = None
    conditions: Sequence[str] = ()
    warnings: Sequence[str] = ()
    cards: Sequence[Card] = ()
    brief: Sequence[Block] = ()
    answers: bool = True
    cases: Sequence[TestCase] = ()
    about: str = ""
