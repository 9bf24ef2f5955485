"""Text that is edited in place; marks in it stay with what they were put on."""

import difflib
import re
from dataclasses import dataclass

NEWLINE = re.compile(r"\r\n|\n|\r")


def flat(source: str) -> str:
    """An expression in one line, as it is compared: white space at brackets and commas does not count."""
    line = re.sub(r"\s+", " ", source.strip())
    line = re.sub(r"\s*([()\[\]{},])\s*", r"\1", line)
    return re.sub(r",([)\]}])", r"\1", line)


def first_line(source: str) -> str:
    """Shorten source for a message: its first line, 60 characters at most."""
    line = source.strip().split("\n")[0].strip()
    return line if len(line) <= 60 else line[:57] + "..."


@dataclass(eq=False)
class Mark:
    """A place in a text: characters from its start; -1 once what it stood on is gone."""

    offset: int


@dataclass(eq=False)
class Added:
    """Whole lines that were added: from the mark `start` up to `end`."""

    start: Mark
    end: Mark


class Text:
    """Text, the marks in it, and which lines of it were added.

    All offsets are characters from the start. Lines end as Python's tokenizer ends them: CR LF, LF or CR."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.added: list[Added] = []
        self._marks: list[Mark] = []

    def mark(self, offset: int) -> Mark:
        """A mark on what begins at this offset."""
        mark = Mark(offset)
        self._marks.append(mark)
        return mark

    def snapshot(self) -> tuple[str, list[tuple[Mark, int]], list[Added]]:
        """Everything that `restore` needs."""
        return self.text, [(mark, mark.offset) for mark in self._marks], list(self.added)

    def restore(self, state: tuple[str, list[tuple[Mark, int]], list[Added]]) -> None:
        """Restore the text of the snapshot; marks that were made since are forgotten."""
        self.text, marks, self.added = state[0], state[1], list(state[2])
        for mark, offset in marks:
            mark.offset = offset
        self._marks = [mark for mark, _ in marks]

    def insert(self, offset: int, new: str) -> None:
        """Put text at an offset; marks at that offset stay with what comes behind it."""
        self.text = self.text[:offset] + new + self.text[offset:]
        for mark in self._marks:
            if mark.offset >= offset:
                mark.offset += len(new)

    def replace(self, start: int, end: int, new: str) -> None:
        """Other text in place of a range. Marks inside stay with the characters that both texts share."""
        old = self.text[start:end]
        inside = [mark for mark in self._marks if start <= mark.offset < end]
        self.text = self.text[:start] + new + self.text[end:]
        for mark in self._marks:
            if mark.offset >= end:
                mark.offset += len(new) - len(old)
        if inside:
            self._move(inside, start, old, new)

    def insert_lines(self, offset: int, lines: str, *, behind: bool = True) -> Mark:
        """Put whole lines at the start of a line, `behind` what was added there before; gives their mark.

        `lines` has LF between its lines and none at its end; it is put in with the newlines of this text."""
        offset = self.behind(offset) if behind else offset
        lines, newline = self._newlines(lines), self.newline
        is_open = offset == len(self.text) and self.text and NEWLINE.match(self.text[-1]) is None
        new = newline + lines if is_open else lines + newline
        self.insert(offset, new)
        self.added.append(Added(self.mark(offset), self.mark(offset + len(new))))
        return self.mark(offset + len(newline) if is_open else offset)

    def behind(self, offset: int) -> int:
        """The start of the line behind all lines that were added at the start of a line."""
        while True:
            ends = [each.end.offset for each in self.added if each.start.offset == offset]
            if not ends or ends[0] <= offset:
                return offset
            offset = ends[0]

    def insert_above(self, mark: Mark, line: str) -> None:
        """Put a line above the line that begins at a mark; it counts as part of what was added there."""
        offset = mark.offset
        inner = [addition for addition in self.added if addition.start.offset == offset]
        self.insert(offset, self._newlines(line) + self.newline)
        for addition in inner:
            addition.start.offset = offset

    def move(self, start: int, end: int, to: int) -> None:
        """A range put at another offset outside of it, with the marks in it."""
        inside = [(mark, mark.offset - start) for mark in self._marks if start <= mark.offset < end]
        moved = self.text[start:end]
        self.replace(start, end, "")
        to = to if to <= start else to - (end - start)
        self.insert(to, moved)
        for mark, place in inside:
            mark.offset = to + place

    def line_start(self, offset: int) -> int:
        """Return where the line of an offset begins."""
        return max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1

    def next_line(self, offset: int) -> int:
        """Where the line behind the one of an offset begins; the end of the text when there is none."""
        newline = NEWLINE.search(self.text, offset)
        return newline.end() if newline else len(self.text)

    def indentation(self, offset: int) -> str:
        """White space before the first character of the line of an offset."""
        start = self.line_start(offset)
        white = re.compile(r"[ \t\f]*").match(self.text, start)
        return white.group() if white else ""

    @property
    def newline(self) -> str:
        """How lines end here: as the first one does."""
        first = NEWLINE.search(self.text)
        return first.group() if first else "\n"

    def _newlines(self, lines: str) -> str:
        return lines.replace("\n", self.newline) if self.newline != "\n" else lines

    def _move(self, marks: list[Mark], start: int, old: str, new: str) -> None:
        if old and old in new:
            shift = new.index(old)
            for mark in marks:
                mark.offset += shift
            return
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        for mark in marks:
            inside = mark.offset - start
            block = next((block for block in blocks if block.a <= inside < block.a + block.size), None)
            mark.offset = -1 if block is None else start + block.b + inside - block.a
