from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from laptime.apps.cli import error_boundary
from laptime.apps.cli.error_boundary import one_line
from laptime.kit.errors import ExitCode, TargetError, UserCodeError

Laptime = Callable[..., Any]


def group(error: BaseException | None = None, returns: int | None = None) -> click.Group:
    """A command line with one command, `go`, that fails or returns as told."""

    @click.group()
    def made() -> None:
        pass

    @made.command()
    def go() -> int | None:
        if error is not None:
            raise error
        return returns

    return made


@pytest.mark.parametrize(
    ("arguments", "what", "next"),
    [
        (["bnech"], "no command is called 'bnech'", "did you mean 'bench'?"),
        (["qqqqqq"], "no command is called 'qqqqqq'", "laptime --help"),
        (["torchvision:resnet18"], "is a target, not a command", "laptime bench torchvision:resnet18"),
        (["model.py"], "is a target, not a command", "laptime bench model.py"),
        (["bench"], "nothing to measure", "laptime bench torchvision:resnet18"),
        (["bench", "x:y", "--bacth", "8"], "there is no option --bacth", "did you mean --batch"),
        (["--qqqq"], "there is no option --qqqq", "laptime --help"),
        (["bench", "x:y", "--preset", "slow"], "'slow' is not one of", "laptime bench --help"),
        (["bench", "x:y", "--seed", "x"], "'x' is not a valid integer", "laptime bench --help"),
        (["bench", "x:y", "--batch"], "'--batch' requires an argument", "laptime bench --help"),
        (["list", "--limit", "0"], "0 is not in the range", "laptime list --help"),
        (["show", "a", "b"], "unexpected extra argument", "laptime show --help"),
        (["load", "null:noop", "--output", "64"], "--output 64 names a file", "--output-tokens 64"),
        (["tune", "server", "a {port}", "--output", "64"], "--output 64 names a file", "--output-tokens 64"),
        (["bench", "x:y", "--output", "64"], "--output 64 names a file", "--output-tokens 64"),
    ],
)
def test_wrong_line_is_three_lines_and_two(
    laptime: Laptime, arguments: list[str], what: str, next: str
) -> None:
    ended = laptime(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    first, why, last = ended.err.splitlines()
    assert what in first
    assert why.startswith("why:   ")
    assert next in last


def test_line_without_command_is_help(laptime: Laptime) -> None:
    ended = laptime()
    assert ended.code == 0
    assert "Commands:" in ended.out
    assert ended.err == ""


def test_help_lists_every_command_with_its_first_line(laptime: Laptime) -> None:
    from laptime.kit import registry

    text = laptime("--help").out
    for name in registry.names("commands"):
        module = registry.load("commands", name)
        assert module.__doc__ is not None
        first = module.__doc__.splitlines()[0].rstrip(".")
        assert re.search(rf"^  {name} +{re.escape(first[:30])}", text, re.MULTILINE), name


def test_every_command_of_ours_explains_its_options(laptime: Laptime) -> None:
    from laptime.kit import registry

    for name in registry.names("commands"):
        command = registry.load("commands", name).command
        assert command.help, name
        assert [o.name for o in command.params if isinstance(o, click.Option) and not o.help] == [], name


def test_version(laptime: Laptime) -> None:
    assert re.fullmatch(r"laptime \d+\.\d+\.\d+\n", laptime("--version").out)


@pytest.mark.parametrize(
    ("error", "code"),
    [(TargetError("no", why="w", next="n"), 2), (UserCodeError("no", why="w", next="n"), 4)],
)
def test_error_ends_in_its_code(capsys: pytest.CaptureFixture[str], error: Exception, code: int) -> None:
    assert error_boundary.run(group(error), ["go"]) == code
    assert capsys.readouterr().err == "error: no\nwhy:   w\nnext:  n\n"


def test_what_a_command_returns_is_the_exit_code() -> None:
    assert error_boundary.run(group(returns=None), ["go"]) == 0
    assert error_boundary.run(group(returns=3), ["go"]) == ExitCode.UNDECIDED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c_is_130_and_no_traceback(capsys: pytest.CaptureFixture[str], error: BaseException) -> None:
    assert error_boundary.run(group(error), ["go"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_our_own_bug_is_70_with_a_file_to_send(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert error_boundary.run(group(KeyError("lost")), ["go"]) == 70
    err = capsys.readouterr().err
    assert "KeyError: 'lost'" in err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 3
    (file,) = tmp_path.glob("laptime-bug-*.txt")
    assert str(file) in err
    text = file.read_text()
    assert "Traceback" in text
    assert "command: laptime go" in text


def test_a_bug_report_holds_no_secrets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_shell")
    line = ["load", "http://me:PASSWORD@127.0.0.1:1/v1?key=QUERY", "-H", "Authorization: Bearer TOKEN"]
    error = ValueError(f"cannot parse {line[1]}; TOKEN and hf_of_the_shell were refused")
    report = str(error_boundary.bug(error, line))
    (file,) = tmp_path.glob("laptime-bug-*.txt")
    for text in (report, file.read_text()):
        assert [word for word in ("PASSWORD", "QUERY", "TOKEN", "hf_of") if word in text] == []
        assert "127.0.0.1:1/v1?key=..." in text


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_bug(tmp_path: Path, closed: str) -> None:
    """As cron and daemons start programs; a file that is opened must not become their stdout either."""
    line = "from laptime.apps.cli.main import main; main()"
    program = (
        "import os, sys; sys.argv[1:] = ['list']; import laptime.store.folder as f; "
        f"opened = []; f.home = lambda: opened.append(os.open('x', os.O_CREAT)) or f.Path('.laptime'); {line}"
    )
    done = subprocess.run(["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, program], cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "x").read_bytes() == b""


def test_bug_without_room_for_the_file_is_still_70(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert error_boundary.run(group(ValueError("x")), ["go"]) == 70
    assert "with -v" in capsys.readouterr().err


def test_verbose_shows_where_it_came_from(laptime: Laptime) -> None:
    assert "Traceback" not in laptime("show", "nowhere").err
    assert "Traceback" in laptime("show", "nowhere", "-v").err
    assert "Traceback" in laptime("-v", "show", "nowhere").err


def test_text_of_a_users_exception_cannot_break_the_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error_boundary.run(group(UserCodeError("a\nb\x1b[2J", why="\r\nc", next="d\u202e")), ["go"])
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 3
    assert "\x1b" not in err
    assert "\u202e" not in err
    assert one_line("plain text, mit Umlaut ä") == "plain text, mit Umlaut ä"


def test_broken_command_is_shown_not_skipped(laptime: Laptime, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from laptime.kit import registry

    point = EntryPoint(name="guest", value="no_such_package:command", group="laptime.commands")
    monkeypatch.setattr(registry, "_guests", lambda room: {"guest": point} if room == "commands" else {})
    assert re.search("^  guest +", laptime("--help").out, re.MULTILINE)
    ended = laptime("guest")
    assert ended.code == 70
    assert "'guest'" in ended.err
    assert "no_such_package" in ended.err
