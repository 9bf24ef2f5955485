"""Options that several commands share. They mean the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from laptime.apps.cli.error_boundary import Voice
from laptime.kit.errors import UsageError
from laptime.store.folder import SUFFIXES

if TYPE_CHECKING:
    from laptime.records.plan import Origin

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def typed(context: click.Context, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that stand on the command line, not those that have their default."""
    source = context.get_parameter_source
    return {name: value for name, value in settings.items() if source(name) == ParameterSource.COMMANDLINE}


def flags(context: click.Context, settings: dict[str, Any]) -> dict[str, Origin]:
    """Origins of the settings that were typed."""
    return dict.fromkeys(sorted(typed(context, settings)), "flag")


def _set_voice(context: click.Context, option: click.Parameter, value: bool) -> None:
    voice = context.find_object(Voice)
    if value and voice is not None:
        setattr(voice, option.name or "", True)


def voice_options(command: Decorated) -> Decorated:
    """`-q` and `-v`."""
    for short, long, text in (
        ("-v", "--verbose", "Show where an error came from."),
        ("-q", "--quiet", "Print nothing but errors on stderr."),
    ):
        option = click.option(
            short, long, is_flag=True, expose_value=False, callback=_set_voice, is_eager=True, help=text
        )
        command = option(command)
    return command


def report_options(command: Decorated) -> Decorated:
    """`--json` and `-o FILE`: what the result is written as."""
    command = click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Write a report; its suffix picks the format: .html .json .md .txt ... Repeatable; - is stdout.",
    )(command)
    command = details_option(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def details_option(command: Decorated) -> Decorated:
    """`--details`: the whole report instead of the answer."""
    return click.option(
        "--details",
        is_flag=True,
        expose_value=False,
        callback=_set_voice,
        is_eager=True,
        help="Print the whole report, not the answer alone.",
    )(command)


def off_option(
    name: str, field: str, help: str, *, default: bool | None = True
) -> Callable[[Decorated], Decorated]:
    """`--no-save`: an option that makes a setting false."""
    return click.option(name, field, is_flag=True, flag_value=False, default=default, help=help)


def step_by_option(help: str) -> Callable[[Decorated], Decorated]:
    """`--step-by`: "" where it is left out."""
    return click.option(
        "--step-by",
        type=click.Choice(["optimizer", "loader", "forward"]),
        default=None,
        callback=lambda context, option, value: value or "",
        help=help,
    )


def store_options(command: Decorated) -> Decorated:
    """`--name` and `--no-save`: how the run is stored."""
    command = off_option("--no-save", "save", "Do not store the run.")(command)
    return name_option("Name of this run: laptime show TEXT.", default="")(command)


def name_option(help: str, *, default: str | None = None) -> Callable[[Decorated], Decorated]:
    """`--name`: what a stored run is called."""
    return click.option("--name", default=default, callback=_run_name, metavar="TEXT", help=help)


def _run_name(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    if name and (name == "last" or name.startswith("last~") or name.endswith(SUFFIXES) or "/" in name):
        raise UsageError(
            f"a run cannot be called {name!r}",
            why="`last` and file names already mean a run",
            next="--name baseline",
        )
    return name
