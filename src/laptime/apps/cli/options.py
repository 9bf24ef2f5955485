"""Options of the command line: those that requests declare (`kit.options`), and those of every command.

Below them: what a shell may complete. Nothing is imported for it before a shell asks, and a completion that
fails offers nothing: an error in the middle of a typed line helps nobody."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from laptime.apps.cli.error_boundary import Voice
from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.kit.options import Field, fields
from laptime.kit.typed import run_name
from laptime.kit.units import seconds

if TYPE_CHECKING:
    from laptime.records.plan import Origin

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Request = TypeVar("Request")


class Asked(click.Option):
    """The option of a request's field."""

    def __init__(self, names: Sequence[str], *, field: Field) -> None:
        option, kind = field.option, field.kind
        self.field = field
        default = f"  [default: {field.shown_default}]" if field.shown_default else ""
        settings: dict[str, Any] = {"help": option.help + default, "default": field.default}
        if kind is bool:
            settings |= {"is_flag": True, "flag_value": not field.default}
        else:
            shown = option.metavar or (f"[{'|'.join(field.choices)}]" if field.choices else "N")
            settings |= {"metavar": shown, "multiple": option.repeatable, "type": click.UNPROCESSED}
            settings["callback"] = reader(field.read)
        if option.completes:
            settings["shell_complete"] = complete_extensions(option.completes)
        elif field.choices:
            settings["shell_complete"] = lambda context, parameter, typed: _beginning(typed, field.choices)
        super().__init__([*names], **settings)


def reader(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads what was typed behind an option; its errors begin with the option's name. read:
    gets a text, or a list of them behind what may be repeated."""

    def callback(context: click.Context, option: click.Parameter, texts: Any) -> Any:
        if context.get_parameter_source(option.name or "") != ParameterSource.COMMANDLINE:
            return texts
        try:
            return read([*texts] if isinstance(texts, tuple) else texts)
        except UsageError as error:
            next = error.next or f"{context.command_path} --help"
            raise UsageError(f"{option.opts[-1]}: {error.what}", why=error.why, next=next) from error

    return callback


def ask_for(request: type, *names: str) -> Callable[[Decorated], Decorated]:
    """The options that the fields of a request declare, in their order: all, or those of these fields."""

    def decorate(command: Decorated) -> Decorated:
        for field in reversed(fields(request).values()):
            if not names or field.name in names:
                command = click.option(*field.flags, field.name, cls=Asked, field=field)(command)
        return command

    return decorate


class Command(click.Command):
    """A command with options whose value may be left out before another word: `--compile [MODE]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line; a bare `--compile` gets its default mode, a bare `--train` its usual optimizer."""
        bare = {
            flag: parameter.field
            for parameter in self.params
            if isinstance(parameter, Asked) and parameter.field.option.bare
            for flag in parameter.opts
        }
        words = [
            f"{word}={bare[word].option.bare}" if word in bare and after not in bare[word].choices else word
            for word, after in zip(args, [*args, ""][1:], strict=True)
        ]
        return super().parse_args(ctx, words)


def pick_typed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that stand on the command line, not those that have their default."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in settings.items() if source(name) == ParameterSource.COMMANDLINE}


def make_request(request: Callable[..., Request], given: Mapping[str, Any], **own: Any) -> Request:
    """The request that a line makes. Options left out keep the request's own defaults. given: options as
    click read them. own: further fields."""
    values = pick_typed(given)
    origins: dict[str, Origin] = dict.fromkeys(sorted({**own, **values}), "flag")
    return request(**{**values, **own}, origins=origins)


def _set_voice(context: click.Context, option: click.Parameter, value: bool) -> None:
    voice = context.find_object(Voice)
    if value and voice is not None:
        setattr(voice, option.name or "", True)


def _voice_option(*names: str, help: str) -> Callable[[Decorated], Decorated]:
    return click.option(
        *names, is_flag=True, expose_value=False, callback=_set_voice, is_eager=True, help=help
    )


def voice_options(command: Decorated) -> Decorated:
    """`-q` and `-v`."""
    command = _voice_option("-v", "--verbose", help="Show where an error came from.")(command)
    return _voice_option("-q", "--quiet", help="Print only errors on stderr.")(command)


def report_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--json`, `--details` and `-o FILE`, what the result is written as, and the options of every command.

    The command gets an `output.Delivery` for them, called `delivery`, which knows of `on_option`, too."""

    @wraps(function)
    def command(*args: Any, outputs: tuple[str, ...], as_json: bool, **given: Any) -> Any:
        from laptime.apps.cli.output import Delivery  # not for `laptime --help`, which reads this file

        voice = click.get_current_context().find_object(Voice) or Voice()
        where = [given.pop(name, "") for name in ("on", "on_names")]
        return function(*args, delivery=Delivery(voice, outputs, *where, as_json=as_json), **given)

    command = click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Write a report; its suffix picks the format: .html .json .md .txt ... Repeatable; - is stdout.",
    )(voice_options(command))
    command = _voice_option("--details", help="Print the whole report.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def timeout_option(help: str) -> Callable[[Decorated], Decorated]:
    """`--timeout`: seconds, written `90s`, `10m`, `1.5h`."""
    return click.option("--timeout", callback=reader(seconds), metavar="TIME", help=help)


def name_option(help: str) -> Callable[[Decorated], Decorated]:
    """`--name`: what stored runs are called."""
    return click.option("--name", callback=reader(run_name), metavar="TEXT", help=help)


def store_option(command: Decorated) -> Decorated:
    """`--store`: the command reads the runs of a shared store, from a copy in the user's cache."""

    @wraps(command)
    def reading(*args: Any, store: str | None, **given: Any) -> Any:
        if store is None:
            return command(*args, **given)
        from laptime.store import folder, shared

        # One more than `list` shows tells it that there are older ones.
        newest = None if given.get("everything") or given.get("outputs") else given.get("limit")
        with folder.standing_in(shared.mirror(store, newest and newest + 1)):
            return command(*args, **given)

    help = "Read the runs of this shared store: a folder, a bucket's URL, postgresql://..."
    return click.option("--store", metavar="STORE", help=help)(cast(Decorated, reading))


def on_option(command: Decorated) -> Decorated:
    """`--on` and `--machines`: the machines that do the work."""
    help = "Use these machines: ssh:HOST,HOST, slurm, slurm:PARTITION, ray, ray:HOST:PORT, local:N."
    names = "Use those of these names: 'a100*'."
    command = click.option("--machines", "on_names", metavar="NAME,...", default="", help=names)(command)
    return click.option("--on", metavar="MACHINES", default="", help=help)(command)


# Completion

Complete = Callable[[click.Context, click.Parameter, str], list[str]]
NEWEST = 50  # runs that are offered


def complete_targets(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Forms (`torchvision:`), or the names of a form that is typed already; and files.

    No framework is imported: its names are asked only of the kind whose form stands there."""
    kind, colon, _ = typed.partition(":")
    if not colon:
        return [*_files(typed), *_beginning(typed, (f"{name}:" for name in registry.names("targets")))]
    with contextlib.suppress(Exception):
        return _beginning(typed, registry.load("targets", kind).names())
    return []


def complete_runs(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """`last`, names and ids of the newest stored runs."""
    with contextlib.suppress(Exception):
        from laptime.store import index

        listed = [*index.listing(limit=NEWEST)[0]]
        names = (line.name for line in listed if line.name)
        return _beginning(typed, ["last", "last~1", *names, *(line.id for line in listed)])
    return []


def complete_extensions(room: str) -> Complete:
    """Names of a room's extensions, several of them separated by commas."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        before, comma, word = typed.rpartition(",")
        names = registry.entries(room) if room == "model_changes" else registry.names(room)
        return [f"{before}{comma}{name}" for name in _beginning(word, names)]

    return complete


def _beginning(typed: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(typed)})


def _files(typed: str) -> Iterator[str]:
    """Scripts, models and folders below what is typed."""
    from pathlib import Path

    folder = typed.rpartition("/")[0]
    with contextlib.suppress(OSError):
        for path in sorted(Path(folder or ("/" if typed.startswith("/") else ".")).iterdir()):
            name = f"{folder}/{path.name}" if "/" in typed else path.name
            if name.startswith(typed) and not path.name.startswith("."):
                if path.is_dir():
                    yield f"{name}/"
                elif path.suffix in (".py", ".onnx"):
                    yield name
