"""Writes docs/commands.md and docs/api.md from the code; `--check` only says whether they are up to date.

The API is read from the running package, not from its source: the keywords of `laptime.bench` are the fields
of its request, which no reader of source sees.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import _pages
import click

import laptime
from laptime.apps.cli.main import cli

COMMANDS = """# Commands

Every command with every option, written by `make docs` from the code: `laptime COMMAND --help` has the same.
[Files and variables](files.md) that commands read, [exit codes](reading.md#exit-codes).

Every command takes `-h`, `--help`; `-q`, `--quiet`, to print nothing but errors on stderr; and `-v`,
`--verbose`, to show where an error came from.
"""
API = """# Python API

Everything in `laptime.__all__`, written by `make docs` from the code: `help(laptime.bench)` has the same.
[Examples](python.md). Keywords under *Options* are the options of [the command](commands.md), as values or as
they are typed there. Nothing heavy is imported before it is used.
"""
EVERYWHERE = {"--help", "--quiet", "--verbose"}


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Each command below this one with what is typed for it."""
    if isinstance(group, click.Group):
        context = click.Context(group, info_name=path)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield f"{path} {name}", command
                yield from commands(command, f"{path} {name}")


def prose(text: str) -> str:
    """A help text as Markdown: what stands under `\\b` is a block of code."""
    parts = [part.strip("\n") for part in inspect.cleandoc(text).split("\n\n")]
    return "\n\n".join(
        f"```sh\n{part.removeprefix(chr(8)).strip(chr(10))}\n```" if part.startswith("\b") else cell(part)
        for part in parts
        if part.strip()
    )


def cell(text: str) -> str:
    """A text that keeps its meaning in Markdown and in a cell; what stands in backticks stays as it is."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part if part.startswith("`") else re.sub(r"[\\*_<|\[\]{}]", lambda found: f"\\{found[0]}", part)
        for part in parts
    )


def option_row(option: click.Option) -> str:
    """The row of one option: what is typed, what it does, its default."""
    metavar = option.make_metavar(click.Context(click.Command("")))
    typed = ", ".join(option.opts) + (f" {metavar}" if not option.is_flag and metavar else "")
    text, _, default = (option.help or "").partition("[default:")
    default = default.strip(" ]") or (str(option.default) if option.show_default else "")
    typed = typed.replace("|", "\\|")
    return f"| `{typed}` | {cell(text)} | {cell(default)} |"


def commands_page() -> str:
    """The page of all commands."""
    lines = [COMMANDS]
    for name, command in commands(cli, "laptime"):
        usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
        lines += [f"## `{name}`\n", f"```text\n{name} {usage}\n```\n", prose(command.help or ""), ""]
        options = [
            each
            for each in command.params
            if isinstance(each, click.Option) and not each.hidden and not EVERYWHERE & {*each.opts}
        ]
        if options:
            lines += ["| option | | default |", "| --- | --- | --- |", *map(option_row, options), ""]
    return "\n".join(lines)


def signature(name: str, value: Any) -> str:
    """As it is called; options that the docstring lists are `**options`."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return name
    listed = (inspect.getdoc(value) or "").partition("\nOptions:\n")[2]
    options = set(re.findall(r"^    (\w+): ", listed, re.MULTILINE))
    shown = [str(each.replace(annotation=each.empty)) for each in parameters if each.name not in options]
    text = f"{name}({', '.join(shown + (['**options'] if options else []))})"
    return re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)  # where it lies differs from run to run


def described(value: Any) -> list[str]:
    """A docstring: its first paragraph as prose, the rest as it stands there."""
    first, _, rest = (inspect.getdoc(value) or "").partition("\n\n")
    return [cell(first), "", *(["```text", rest.strip("\n"), "```", ""] if rest else [])]


def api_page() -> str:
    """The page of all public names."""
    lines = [API]
    for name in sorted(laptime.__all__, key=str.lower):
        value = getattr(laptime, name)
        if inspect.ismodule(value):
            lines += [f"## `laptime.{name}`\n", *described(value)]
            continue
        lines += [f"## `laptime.{name}`\n", f"```text\n{signature(f'laptime.{name}', value)}\n```\n"]
        lines += described(value)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(
        max(
            _pages.run("commands", commands_page, of="commands"),
            _pages.run("api", api_page, of="names"),
        )
    )
