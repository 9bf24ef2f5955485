"""The measuring options, and the request that they make. `bench` and `compare` take the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from laptime.apps.cli import completing
from laptime.apps.cli.options import Decorated, name_option, off_option, typed
from laptime.kit import registry
from laptime.kit.errors import UsageError, unknown
from laptime.kit.quantity import seconds, share
from laptime.kit.text import closest
from laptime.records.plan import OPTIMIZERS, BenchRequest, Origin
from laptime.records.regime import Regime

COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BARE = {"--compile": COMPILE_MODES, "--train": OPTIMIZERS}
_DTYPE_WORDS = {
    "fp32": "float32",
    "float": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
}


def read_by(read: Callable[[Any], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that parses an option's text; its errors name the option."""

    def callback(context: click.Context, option: click.Parameter, text: Any) -> Any:
        try:
            return None if text is None else read(text)
        except UsageError as error:
            raise UsageError(f"{option.opts[-1]}: {error.what}", why=error.why, next=error.next) from error

    return callback


def words(text: str) -> list[str]:
    """`a,b` as a list, each once."""
    return list(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def dtypes(text: str) -> list[str]:
    """Names of dtypes; short ones are spelled out."""
    return list(dict.fromkeys(_DTYPE_WORDS.get(word.lower(), word) for word in words(text)))


def integers(text: str) -> list[int]:
    """`1,8` as numbers, each once.

    Raises:
        UsageError: not whole numbers.
    """
    try:
        numbers = list(dict.fromkeys(int(word) for word in words(text)))
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a list of whole numbers",
            why="numbers with commas between them",
            next="1,8, say",
        ) from error
    if not numbers:
        raise UsageError("the list is empty", why="it takes at least one number", next="1,8, say")
    return numbers


def batches(text: str) -> list[int] | str:
    """Batch sizes, or the name of a search for them.

    Raises:
        UsageError: neither.
    """
    if text in ("auto", "auto:linear"):
        return text
    if text[:1].isalpha():
        near = closest(text, ["auto", "auto:linear"])
        raise UsageError(
            f"there is no search called {text!r}",
            why="known: auto (doubling, then bisection), auto:linear (one after another)",
            next=f"did you mean --batch {near}?" if near else "--batch 1,8   or   --batch auto",
        )
    return integers(text)


def backends(text: str) -> list[str]:
    """Names of backends that there are.

    Raises:
        UsageError: there is none of this name.
    """
    available = registry.names("backends")
    names = words(text)
    for name in names or [text]:
        if name not in available:
            raise unknown("backend", name, available, example="laptime doctor")
    return names


def interpreters(texts: Sequence[str]) -> dict[str, str]:
    """`tensorflow=.venv-tf/bin/python`: an interpreter for each backend named.

    Raises:
        UsageError: not of this form, or no such backend.
    """
    paths = _assigned(texts, "--python tensorflow=.venv-tf/bin/python")
    return {name: python for names, python in paths.items() for name in backends(names)}


def _assigned(texts: Sequence[str], example: str) -> dict[str, str]:
    """`NAME=VALUE`, each, by name.

    Raises:
        UsageError: one is not of this form.
    """
    values = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError(
                f"{text!r} gives no value to a name", why="it is written NAME=VALUE", next=example
            )
        values[name] = value
    return values


def options(texts: Sequence[str]) -> dict[str, list[str]]:
    """`hint=latency,throughput`: the values of each option.

    Raises:
        UsageError: not of this form.
    """
    return {name: words(value) for name, value in _assigned(texts, "--option hint=throughput").items()}


def shapes(texts: Sequence[str]) -> dict[str, list[int]]:
    """`image=3x224x224` and `tokens=128`: sizes by name.

    Raises:
        UsageError: not of this form, or a size is no number above zero.
    """
    by_name = {}
    for name, value in _assigned(texts, "--shape image=3x224x224").items():
        sizes = value.lower().replace(",", "x").split("x")
        if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
            raise UsageError(
                f"{value!r} is no shape", why="numbers above zero with x between them", next="3x224x224, say"
            )
        by_name[name] = [int(size) for size in sizes]
    return by_name


def time_option(name: str, help: str, *, default: str | None = None) -> Callable[[Decorated], Decorated]:
    """An option that takes seconds, written `90s`, `10m`, `1.5h`."""
    return click.option(
        name,
        callback=read_by(seconds),
        default=default,
        show_default=default is not None,
        metavar="TIME",
        help=help,
    )


_OPTIONS = (
    click.option(
        "--batch",
        callback=read_by(batches),
        metavar="N,... | auto",
        help="Batch sizes; auto finds the largest that fits, and the knee. [default: as the inputs are]",
    ),
    click.option("--device", metavar="NAME", help="cpu, cuda:0, mps ... [default: the fastest there is]"),
    click.option(
        "--dtype",
        callback=read_by(dtypes),
        metavar="NAME,...",
        help="float32, bfloat16, float16. [default: float32]",
    ),
    click.option("--threads", callback=read_by(integers), metavar="N,...", help="Intra-op threads."),
    click.option(
        "--instances",
        callback=read_by(integers),
        metavar="N,...",
        help="Copies of the program at the same time, each on CPUs of its own; throughput is that of all.",
    ),
    click.option("--channels-last", is_flag=True, help="Memory format NHWC."),
    click.option(
        "--compile",
        type=click.Choice(COMPILE_MODES),
        metavar="[MODE]",
        help=f"Compile the model first: {', '.join(COMPILE_MODES)}.",
    ),
    click.option(
        "--train",
        type=click.Choice(OPTIMIZERS),
        metavar="[OPTIMIZER]",
        help=f"Measure full training steps on made-up data: {', '.join(OPTIMIZERS)}.",
    ),
    click.option(
        "--precision",
        callback=read_by(share),
        metavar="PERCENT",
        help="Stop when half of the 95 % interval is this small. [default: by preset]",
    ),
    time_option("--budget", "Measure no longer than this: 60s, 2m, 1.5h. [default: by preset]"),
    click.option(
        "--preset",
        type=click.Choice(["quick", "standard", "strict"]),
        help="How precise and how long. [default: standard]",
    ),
    click.option(
        "--regime",
        "regimes",
        callback=read_by(words),
        metavar="NAME,...",
        help="isolated (sync, call, sync), saturated (back to back), device (by its own clock), paced "
        "(at --rate). [default: what the device offers]",
    ),
    click.option("--rate", type=float, metavar="PER_SECOND", help="Calls per second of the paced regime."),
    click.option("--processes", type=int, metavar="N", help="Fresh processes of every variant."),
    time_option("--timeout", "A step that takes longer counts as hung. [default: 120s]"),
    click.option(
        "--backend",
        "backends",
        callback=read_by(backends),
        shell_complete=completing.extensions("backends"),
        metavar="NAME,...",
        help="Frameworks; each runs those targets that it can. [default: by target]",
    ),
    click.option(
        "--python",
        multiple=True,
        callback=read_by(interpreters),
        metavar="BACKEND=PATH",
        help="Interpreter of a backend's workers: tensorflow=.venv-tf/bin/python. Repeatable.",
    ),
    click.option(
        "--option",
        "options",
        multiple=True,
        callback=read_by(options),
        metavar="NAME=VALUE,...",
        help="A setting of the backend's own, say hint=latency,throughput. Repeatable.",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=read_by(shapes),
        metavar="NAME=3x224x224",
        help="Sizes that a model file leaves open: an input's without the batch, a dimension's. Repeatable.",
    ),
    click.option("--seed", type=int, metavar="N", help="Of weights and inputs. [default: 0]"),
    name_option("Name of this run: laptime show TEXT."),
    off_option("--no-save", "save", "Do not store the run.", default=None),
)


def all_options(command: Decorated) -> Decorated:
    """All options of a measurement. Their names are the fields of BenchRequest."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


same_option = click.option(
    "--same",
    metavar="NAME,...",
    help="Architectures in every framework here that knows them: efficientnet_b0, resnet50.",
)


class Measuring(click.Command):
    """A command with options whose value may be left out before a target: `--compile [MODE]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line; a bare `--compile` gets its default mode, a bare `--train` its usual optimizer."""
        following = [*args, ""][1:]
        return super().parse_args(
            ctx,
            [
                f"{word}={_BARE[word][0]}" if word in _BARE and after not in _BARE[word] else word
                for word, after in zip(args, following, strict=True)
            ],
        )


def request(
    context: click.Context, targets: Sequence[str], *, given: dict[str, Any], same: str | None = None
) -> BenchRequest:
    """What the line asks for. Options left out keep BenchRequest's own defaults, or the preset's.

    Args:
        same: architectures; their targets, and the backends that can run them, are added.

    Raises:
        UsageError: options contradict each other.
    """
    flags = typed(context, given)
    if flags.get("rate") is not None and flags.get("regimes") and Regime.PACED not in flags["regimes"]:
        raise UsageError(
            f"--rate needs the {Regime.PACED} regime",
            why=f"--regime {','.join(flags['regimes'])} makes no calls on a schedule",
            next=f"--regime {','.join([*flags['regimes'], Regime.PACED])} --rate {flags['rate']:g}",
        )
    origins: dict[str, Origin] = dict.fromkeys(["targets", *flags], "flag")
    if same:
        from laptime.verbs.bench import planning  # not for `laptime --help`
        from laptime.verbs.bench import same as frameworks

        planning.check(BenchRequest(targets=[*targets], **flags))
        architectures = frameworks.same(same, backends=flags.get("backends", []), python=flags.get("python"))
        targets = [*targets, *architectures.targets]
        flags["backends"] = architectures.backends
        origins.setdefault("backends", "machine")
    return BenchRequest(targets=[*targets], **flags, origins=origins)
