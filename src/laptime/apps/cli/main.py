"""The command line's front door. A command is a file in `commands/`, imported only when it is called.

Nothing heavy is imported here: `laptime --help` answers while numpy would still be loading."""

import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib.resources import files
from types import FrameType

import click

from laptime.apps.cli import error_boundary
from laptime.apps.cli.options import voice_options
from laptime.kit import __version__, registry
from laptime.kit.errors import UsageError

COMPLETE = "_LAPTIME_COMPLETE"  # set by a shell that wants a line completed: `bash_complete`, say


class Commands(click.Group):
    """The commands of one room, ours and those of other packages."""

    room = "commands"  # a name of `registry.ROOMS`; each file in it has a click command called `command`

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their words, sorted."""
        return [name.replace("_", "-") for name in registry.names(self.room)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None when there is none of this name."""
        if cmd_name.replace("-", "_") not in registry.names(self.room):
            return None
        command = registry.load(self.room, cmd_name).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the line names. Raises UsageError: there is none; the nearest is suggested."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            self.refuse(word)
        return super().resolve_command(ctx, args)

    def refuse(self, word: str) -> None:
        """Raise the UsageError of a word that is no command; the nearest one is suggested."""
        registry.load(self.room, word)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, read from the files' first lines without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(word, summary(self.room, word)) for word in self.list_commands(ctx)])


def summary(room: str, word: str) -> str:
    """The purpose of a command: the first line of its file's docstring."""
    file = files(registry.ROOMS[room]) / f"{word.replace('-', '_')}.py"
    if not file.is_file():
        return "(from another package)"
    with file.open(encoding="utf-8") as text:
        return text.readline().strip().strip('"').partition('"""')[0].rstrip(".")


class Front(Commands):
    """All commands; it recognises a target in the place of a command."""

    def refuse(self, word: str) -> None:
        """Raise a UsageError, as for any word that is no command."""
        if ":" in word or word.endswith(".py"):
            what = f"{word!r} is a target, not a command"
            raise UsageError(what, why="the command comes first", next=f"laptime bench {word}")
        super().refuse(word)


@click.command(
    cls=Front,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done · 1 the answer is no · 2 wrong use · 3 could not decide, or the numbers are "
    "invalid · 4 the measured code failed · 5 nothing to do · 70 a bug in laptime · 130 interrupted",
)
@click.version_option(__version__, prog_name="laptime", message="%(prog)s %(version)s")
@voice_options
@click.pass_context
def cli(context: click.Context) -> None:
    """How fast a deep-learning model really runs, why, what that costs, and how to make it faster."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; its exit code."""
    return error_boundary.run(cli, arguments)


def complete(instruction: str) -> int:
    """Answer a shell that completes a line; its exit code. Not imported for any other call: it would cost."""
    from click.shell_completion import shell_complete

    return shell_complete(cli, {}, "laptime", COMPLETE, instruction)


def main() -> None:
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a crash.
        with contextlib.suppress(io.UnsupportedOperation):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
    # Being asked to end (by `timeout`, a scheduler) is Ctrl-C in other words: keep what there is.
    signal.signal(signal.SIGTERM, _interrupt)
    if COMPLETE in os.environ:
        sys.exit(complete(os.environ[COMPLETE]))
    sys.exit(run(sys.argv[1:]))


def _open_closed_streams() -> None:
    """Let what was closed by who started us (cron, `>&-`) lead nowhere: a file that is opened would take its
    number, and get what somebody prints."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
