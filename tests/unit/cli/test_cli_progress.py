from __future__ import annotations

import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec import structs

from fixtures import runs
from laptime.apps.cli.progress import progress
from laptime.records.case import Failure
from laptime.records.event import CaseAdded, CaseChanged, Event, Progress


def _events() -> list[Event]:
    good = runs.trusted().cases[0]
    bad = structs.replace(runs.failing(Failure(kind="died", what="killed\x1b[31m")), key="bad[case]")
    return [
        CaseAdded(good),
        Progress(0.25, 42.0, "measuring [b]"),
        CaseChanged(good),
        CaseAdded(structs.replace(bad, status="ok", failure=None)),
        CaseChanged(bad),
        CaseChanged(bad),
        Progress(0.5, 0.2, "nearly\x1b[2J done"),
    ]


def _tell(*, quiet: bool = False) -> None:
    with progress(quiet=quiet) as listen:
        for event in _events():
            listen(event)


def test_without_a_terminal_a_case_is_one_line_and_a_failure_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _tell()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "measuring torchvision:resnet18/batch=1/dtype=float32/device=cpu",
        "measuring bad[case]",
        "failed    bad[case]: killed [31m",
    ]


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _tell(quiet=True)
    assert capsys.readouterr() == ("", "")


class Terminal:
    """A pseudo terminal in place of stderr."""

    def __init__(self) -> None:
        self.ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w")

    def text(self) -> str:
        """What was written to it so far."""
        self.stream.flush()
        os.set_blocking(self.ours, False)
        found = b""
        try:
            while True:
                found += os.read(self.ours, 65536)
        except BlockingIOError:
            return found.decode()


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, *, kind: str = "xterm") -> Iterator[Terminal]:
    """stderr is a terminal inside. No fixture: pytest puts its own stderr back between setup and test."""
    made = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", made.stream)
        patch.setenv("TERM", kind)
        patch.setenv("COLUMNS", "100")
        yield made
    made.stream.close()
    os.close(made.ours)


def test_on_a_terminal_a_line_shows_share_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen:
        _tell()
        text = screen.text()
    assert "25 %" in text
    assert "42 s left" in text
    assert "measuring [b]" in text
    assert "50 %" in text
    assert "0 s left" not in text
    assert "\x1b[2J" not in text


def test_bar_does_not_run_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen, progress(quiet=False) as listen:
        listen(Progress(0.75, 10.0, "measuring"))
        screen.text()
        listen(Progress(0.0, 40.0, "counting FLOPs"))
        text = screen.text()
    assert "75 %" in text
    assert "counting FLOPs" in text
    assert "40 s" not in text


def test_nothing_is_drawn_between_events_and_no_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    with terminal(monkeypatch) as screen, progress(quiet=False) as listen:
        listen(Progress(0.25, 42.0, "measuring"))
        assert screen.text()
        assert threading.active_count() == before
        for event in _events():
            if not isinstance(event, Progress):
                listen(event)
        assert screen.text() == ""


def test_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch, kind="dumb") as screen:
        _tell()
        text = screen.text()
    assert text.startswith("measuring ")
    assert "\x1b" not in text


def test_no_hundred_per_cent_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.progress import Progress as Bar

    shown: list[float] = []
    monkeypatch.setattr(Bar, "update", lambda self, task, **fields: shown.append(fields["completed"]))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(quiet=False) as listen:
        listen(Progress(0.5, 1.0, "half"))
        listen(Progress(1.0, 0.0, "the last passes"))
    assert shown == [0.5, 0.99]
