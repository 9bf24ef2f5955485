"""Words of the command line that are files of a room, imported only when they are called."""

from __future__ import annotations

from importlib.resources import files

import click

from laptime.kit import registry


class Commands(click.Group):
    """The commands of one room, ours and those of other packages.

    Attributes:
        room: a name of `registry.ROOMS`; each file in it has a click command called `command`.
    """

    room = "commands"

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
        """The command that the line names.

        Raises:
            UsageError: there is none; the nearest is suggested.
        """
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
    """What a command does: the first line of its file's docstring."""
    file = files(registry.ROOMS[room]) / f"{word.replace('-', '_')}.py"
    if not file.is_file():
        return "(from another package)"
    with file.open(encoding="utf-8") as text:
        return text.readline().strip().strip('"').partition('"""')[0].rstrip(".")
