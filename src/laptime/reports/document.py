"""The document of a report, for any kind of run: builders make a `Document`, formats show any.

Every text in it is plain: formats escape, shorten and lay out. Numbers are in SI base units unless a column's
kind says otherwise. Only the page calls what is lazy (`Chart.plot`), only machines call `Document.data`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from markupsafe import Markup
from msgspec import Struct

from laptime.records.quantity import Quantity
from laptime.records.run import Run

Detail = Literal["brief", "folded", "page", "text"]
"""Where a part is shown. brief: everywhere; folded: not on a terminal, and Markdown folds such sections away;
page: only on the page and in CSV; text: on a terminal and in Markdown, because the page draws it."""
Kind = Literal["text", "code", "time", "short", "change", "bytes", "rate", "share", "count", "number"]
"""How a column shows raw values.

text: words; code: names from programs, in a fixed-width font; time: nanoseconds, one unit a column on the
page; short: nanoseconds, each in its own unit; change: nanoseconds with a sign; bytes: bytes; rate: bytes per
second; share: 0 to 1 as per cent; count: with thousands separators; number: three digits, or none after the
point if all are whole."""
Value = str | float | int | None
Tone = Literal["trusted", "noisy", "invalid", "neutral", "unknown"]
Outcome = Literal["passed", "failure", "error", "skipped"]


class Headline(Struct, frozen=True):
    """The first thing that is read."""

    word: str  # one or a few words: `trusted`, `1.8x`, `input bound`
    tone: Tone
    sentence: str
    next: Sequence[str] = ()  # commands to type, the best first
    share: float | None = None  # 0 to 1, drawn as a dial on the page instead of the tone's sign
    # the number that people came for, unless the word has it: the page's title and first line
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

    `next: COMMAND` is never broken."""

    rows: Sequence[tuple[str, str]]


class Bar(Struct, frozen=True):
    name: str
    value: float = 0.0  # its length, on the scale of the block
    text: str = ""  # the value in words
    share: float | None = None  # 0 to 1, printed beside the text if it is not None
    kind: str = ""  # class of its colour (`p-KIND` on the page)
    note: str = ""
    parts: "Sequence[Bar]" = ()  # stacked inside the bar instead of one colour
    interval: tuple[float, float] | None = None  # low and high end in the unit of `value`, drawn as a whisker
    detail: Detail = "brief"


class Bars(Block, frozen=True):
    """Bars on one scale."""

    rows: Sequence[Bar]
    title: str = ""
    note: str = ""
    whole: float | None = None  # the value of a bar of full width; the longest bar's if it is None
    stacked: bool = False  # the page draws all rows as one band with a legend; elsewhere each row is a line
    legend: Sequence[Bar] = ()  # names of the kinds of parts


class Cell(Struct, frozen=True):
    """A number or word that is shown as it is."""

    text: str
    value: float | None = None  # the raw number, for sorting and CSV
    interval: str = ""  # `[25.9, 26.8] ms`, the 95 % interval
    margin: str = ""  # `±1.2 %`, half of it as a share of the value
    note: str = ""  # why there is no value, or what was excluded from it
    tone: str = ""  # class of its colour: a verdict's word, `faster`, `failed`
    draw: Callable[[], Markup] | None = None  # what the page shows instead of the text


def as_cell(quantity: Quantity) -> Cell:
    """A quantity with its interval."""
    return Cell(text=quantity.text, value=quantity.value, interval=quantity.interval_text)


def number(value: float | None, unit: str, ci95: tuple[float, float] | None = None) -> Cell:
    """A number with its unit, and its interval if it has one."""
    return Cell(text="-") if value is None else as_cell(Quantity.of(value, ci95, unit=unit))


class Extra(Struct, frozen=True, kw_only=True):
    """Lines or a table that a row or a finding folds away, a call stack for example."""

    caption: str = ""
    lines: Sequence[str] = ()
    table: "Table | None" = None


class Column(Struct, frozen=True):
    title: str
    kind: Kind = "text"
    regime: str = ""  # stands under the title
    note: str = ""  # what it means and when it lies
    bar: bool = False  # its values are also drawn as bars
    draw: Callable[[], Markup] | None = None  # stands under the title on the page, an axis for example
    priority: int = 0  # a terminal that is too narrow leaves out the highest first; 0 always stays
    detail: Detail = "brief"


class Row(Struct, frozen=True):
    """A row: one raw value or ready `Cell` a column."""

    cells: Sequence[Value | Cell]
    key: str = ""  # what links call it: `TABLE/KEY`
    full: str = ""  # the whole of a first cell that is shortened
    notes: Sequence[str] = ()  # sentences under the row
    extras: Sequence[Extra] = ()
    depth: int | None = None  # in a tree, 0 for a root
    tone: str = ""  # `strong` stands out, `weak` steps back; a verdict's word colours the row
    detail: Detail = "brief"


class Table(Block, frozen=True):
    """Rows and columns. The page sorts, searches and folds them; a row's anchor is `ID-INDEX`."""

    id: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    # rows on the page; those further down that a finding links to are there, too. A terminal shows the rows
    # with detail brief, Markdown those that are folded, too.
    most: int = 400
    total: int = 0  # rows that there are, if only some are listed; 0 if all are
    notes_title: str = "why"  # what Markdown and CSV call the column of the rows' notes
    tree: bool = False  # rows have a depth and can be folded

    @property
    def has_intervals(self) -> bool:
        """Whether a note has to say what stands in brackets."""
        return any(isinstance(cell, Cell) and cell.interval for row in self.rows for cell in row.cells)


class Views(Block, frozen=True):
    """Several views of one thing: the page shows one at a time, a terminal the first."""

    tables: Sequence[Table]


class Advice(Block, frozen=True, kw_only=True):
    """A finding."""

    severity: str
    sentence: str
    gain: str = ""
    share: str = ""
    change: str = ""
    place: str = ""
    commands: Sequence[str] = ()
    stack: Sequence[Extra] = ()  # where in the program it is
    evidence: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = ()  # (`TABLE/KEY`, words) of the rows that it rests on


class Notice(Struct, frozen=True):
    """One line of what a check or a comparison says: `level` is its outcome or word."""

    level: str
    text: str
    next: str = ""


class Notices(Block, frozen=True):
    """The sentences of checks and small findings, one line each."""

    rows: Sequence[Notice]


class Failure(Block, frozen=True, kw_only=True):
    """A case that could not be measured: `status` is failed, skipped or cut short."""

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


class Drawing(Protocol):
    """A `page.plot.Plot`, or anything that can do the same."""

    def draw(self, width: float) -> Markup:
        """It for a width in pixels: the page has one for wide screens, and one for phones."""

    def keys(self) -> Markup:
        """The legend of its marks, under it."""

    def points(self) -> Any:
        """Data for tooltips of it for wide screens; None if its marks have titles."""


class Chart(Block, frozen=True):
    """A drawing, which only the page has."""

    title: str
    plot: Callable[[], Drawing]  # makes it
    half: bool = False  # it stands beside another, and is drawn once, for half of the page
    note: str = ""


class Stage(Block, frozen=True, kw_only=True):
    """Ranges by lane, or trees of calls, that the page's script draws and moves in."""

    kind: Literal["timeline", "calls"]
    data: Callable[[], dict[str, Any]]


class Panels(Block, frozen=True):
    """Blocks side by side if there is room."""

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
    """Blocks of one topic."""

    id: str  # anchor on the page, and name in CSV
    title: str
    blocks: Sequence[Block]
    note: str = ""  # explains the section on the page; what everybody must read is a `Text`
    detail: Detail = "brief"
    # whether a terminal and Markdown write the title; the page does if it is not `lead`, too
    headed: bool = True
    lead: bool = False  # the page shows it right after the verdict, before the cards
    folded: bool = False  # Markdown folds it away under its title


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
    """The whole content of a report."""

    verb: str
    title: str
    verdict: Headline
    sections: Sequence[Section]
    data: Callable[[], Any]  # the document that `--json` prints; the page has it, too, if it is `embedded`
    embedded: bool = False
    run: Run | None = None  # what it is about; None for what is not stored (doctor, history)
    conditions: Sequence[str] = ()  # what holds for all of it: machine, versions, settings
    warnings: Sequence[str] = ()  # sentences to read before any number
    cards: Sequence[Card] = ()
    # what a terminal shows beside the verdict unless all is asked for: the numbers, a line or few
    brief: Sequence[Block] = ()
    # the verdict is the answer itself, and goes before `brief`; where it only says whether to trust the
    # numbers, they go first
    answers: bool = True
    cases: Sequence[TestCase] = ()
    about: str = ""  # the last line of the page
