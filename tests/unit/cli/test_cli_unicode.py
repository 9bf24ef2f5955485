"""A terminal gets characters that it can show."""

from __future__ import annotations

import io

import pytest

from laptime.apps.cli import output


class Terminal(io.StringIO):
    def __init__(self, encoding: str, *, is_terminal: bool) -> None:
        super().__init__()
        self._encoding, self._is_terminal = encoding, is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("encoding", "term", "is_terminal", "unicode"),
    [
        ("utf-8", "xterm", True, True),
        ("utf-8", "dumb", True, False),
        ("utf-8", "dumb", False, True),  # a file takes what its encoding has
        ("US-ASCII", "xterm", True, False),
        ("ANSI_X3.4-1968", "xterm", False, False),
    ],
)
def test_ascii_where_the_terminal_asks_for_it(
    encoding: str, term: str, is_terminal: bool, unicode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout", Terminal(encoding, is_terminal=is_terminal))
    assert output._takes_unicode() is unicode
