"""The boundary of every command: errors become three lines on stderr and an exit code.

stdout carries the result and nothing else; everything said here goes to stderr."""

import contextlib
import errno
import itertools
import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from laptime.kit import __version__, redaction
from laptime.kit.errors import ExitCode, LaptimeError, UsageError


@dataclass
class Voice:
    """How much the program says; `-q`, `-v` and `--details` anywhere on the line set it."""

    quiet: bool = False
    verbose: bool = False
    details: bool = False
    whole: Callable[[str], str] = str  # makes of advice a line that runs

    def say(self, text: str) -> None:
        """A remark on stderr, not under --quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def complain(self, error: LaptimeError) -> ExitCode:
        """Three lines on stderr, under -v with the traceback before them; the exit code they stand for."""
        if self.verbose:
            click.echo("".join(traceback.format_exception(error.__cause__ or error)), err=True)
        # A user's exception may bring line breaks or terminal codes; three lines stay three.
        what, why, next = map(one_line, (error.what, error.why, error.next))
        click.echo(str(LaptimeError(what, why=why, next=self.whole(next))), err=True)
        return error.exit_code


pass_voice = click.make_pass_decorator(Voice, ensure=True)  # a command's first argument


def run(group: click.Group, arguments: Sequence[str]) -> int:
    """Carry out one command line; its exit code.

    A command's return value is its exit code, None is 0."""
    voice = Voice(whole=partial(_whole, group, arguments))
    try:
        with group.make_context("laptime", [*arguments], obj=voice) as context:
            code = int(group.invoke(context) or ExitCode.OK)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        code = done.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has all it wanted: `laptime list | head`
        discard_stdout()
        code = ExitCode.OK
    except click.ClickException as error:
        code = voice.complain(from_click(error, arguments))
    except LaptimeError as error:
        code = voice.complain(error)
    except Exception as error:
        code = voice.complain(bug(error, arguments))
    return code


def _whole(group: click.Group, arguments: Sequence[str], advice: str) -> str:
    """Advice as a line to copy: options in the command as it was typed, what they are for behind `#`."""
    line, gap, reason = advice.partition("   ")
    if not gap and not line.startswith("--"):
        return advice
    from laptime.reports.commands import whole, with_options  # loads records, which most lines do without

    if line.startswith("--") and (named := _command(group, arguments)) is not None:
        path, rest, command = named
        try:
            words = shlex.split(line)
        except ValueError:
            return advice
        known = {name for parameter in command.params for name in parameter.opts}
        # `--dtype float32, or --backend torch` are words about options, not options.
        if all(word in known if word.startswith("--") else not word.endswith(",") for word in words):
            line = with_options(path, words, rest)
    return whole(line + gap + reason)


def _command(
    group: click.Group, arguments: Sequence[str]
) -> tuple[list[str], list[str], click.Command] | None:
    """The words of the command that was typed, those behind it, and the command itself."""
    command: click.Command = group
    rest, path = [*itertools.dropwhile(lambda word: word.startswith("-"), arguments)], list[str]()
    with click.Context(group) as context:
        while isinstance(command, click.Group):
            words = subject_first(command, rest)
            found = command.get_command(context, words[0]) if words else None
            if found is None:
                return None
            command = found
            path += words[:1] if words[1:] != rest else []  # what was not typed is not added
            rest = words[1:]
    return path, rest, command


def subject_first(group: click.Group, words: Sequence[str]) -> list[str]:
    """The words behind a group, one of its commands first: `tune` tells its subject from the others."""
    named = getattr(group, "named", None)
    return [*words] if named is None else named(words, is_complete=False)


def one_line(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    printable = (c if c.isprintable() else " " for c in " ".join(text.splitlines()))
    return text if text.isprintable() else "".join(printable)


def discard_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def from_click(error: click.ClickException, arguments: Sequence[str]) -> UsageError:
    """Click's errors in our three lines."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = " ".join(["laptime", *(word for word in arguments[:1] if not word.startswith("-"))])
    if context is not None and context.command_path.startswith(f"{path} "):
        path = context.command_path  # a command of a group: laptime suite run
    why = "the line cannot be read"  # some of click's errors carry the context of the group: no use
    if context is not None and context.command_path == path:
        why = "usage: " + " ".join(context.get_usage().split()).removeprefix("Usage: ")
    what, next_step = error.format_message().rstrip("."), f"{path} --help"
    if isinstance(error, click.NoSuchOption):
        what = f"there is no option {error.option_name}"
        if error.possibilities:
            next_step = f"did you mean {' or '.join(error.possibilities)}?"
    elif isinstance(error, click.MissingParameter) and error.param is not None and context is not None:
        what = f"{error.param.make_metavar(context).rstrip('.')} is missing"
    return UsageError(what, why=why, next=next_step)


def bug(error: Exception, arguments: Sequence[str]) -> LaptimeError:
    """Our own mistake: the traceback goes to a file to attach, not over the terminal. A full disk is none."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        discard_stdout()
        why = "no space is left on its disk"
        return UsageError(
            "the output could not be written", why=why, next="df -h names the disk that is full"
        )
    what = redaction.text(f"laptime met a bug: {type(error).__name__}: {error}", arguments)
    command = shlex.join(["laptime", *redaction.line(arguments)])
    where = f"laptime {__version__}, Python {platform.python_version()}, {platform.platform()}"
    told = redaction.text("\n".join(traceback.format_exception(error)), arguments)
    try:
        handle, name = tempfile.mkstemp(prefix="laptime-bug-", suffix=".txt", text=True)
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123, a handle
            file.write(f"{where}\ncommand: {command}\n\n{told}")
    except OSError:
        why, next = "this is a bug in laptime", "run it again with -v to see where"
    else:
        why = f"this is a bug in laptime; the details are in {Path(name)}"
        next = "send that file with a bug report (it holds your command line without secrets, and paths)"
    report = LaptimeError(what, why=why, next=next)
    report.__cause__ = error
    return report
