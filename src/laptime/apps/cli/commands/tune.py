"""Make a training script or a model faster, with proof: a patch, or a folder that runs by itself."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from laptime.apps.cli import options
from laptime.apps.cli.options import Asked, ask_for, complete_targets, make_request, report_options
from laptime.apps.cli.output import Delivery, session_code
from laptime.apps.cli.progress import Lines
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.event import Listener
from laptime.records.run import Run
from laptime.store import writable
from laptime.store.live_run import Recorded
from laptime.tuning.inference.request import ModelRequest, is_model
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.server.request import ServerRequest

EXAMPLE = "laptime tune server 'COMMAND --port {port} --flag {1,2}' --concurrency 8"


class TuneCommand(options.Command):
    """A word behind `tune`: what is tuned, with the options that it has.

    Attributes:
        many: what it is called in a sentence. reason: why it has no more options.
    """

    many = reason = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`.
        Raises UsageError: an option, or what stands behind it, is one of another subject."""
        others: list[TuneCommand] = [*SUBJECTS.values()]
        try:
            given, _, _ = self.make_parser(ctx).parse_args([*args])
        except click.NoSuchOption as error:
            name = error.option_name
            self._refuse(name, [other for other in others if name in other.flags])
        except click.UsageError:
            pass  # it is said below
        else:
            for name, texts in given.items():
                for text in texts if isinstance(texts, list) else [texts]:
                    if text not in self.choices(name, text):
                        flag = f"--{name.replace('_', '-')} {text}"
                        self._refuse(flag, [other for other in others if text in other.choices(name)])
        return super().parse_args(ctx, args)

    @property
    def asked(self) -> list[Asked]:
        """Its own options: those of every command are left out."""
        return [option for option in self.params if isinstance(option, Asked)]

    @property
    def flags(self) -> set[str]:
        """All flags that may be typed for them."""
        return {flag for option in self.asked for flag in option.opts}

    def choices(self, name: str, *others: Any) -> Sequence[Any]:
        """Return the choices of an option; `others` if it has none."""
        return next((each.field.choices for each in self.asked if each.name == name), ()) or others

    def _refuse(self, given: str, owners: "Sequence[TuneCommand]") -> None:
        if owners:
            what = f"{given} is for {' and '.join(owner.many for owner in owners)}"
            raise UsageError(what, why=self.reason, next=f"laptime tune {self.name} --help")


class Tune(click.Group):
    """`tune`: the subject is the word behind it, or follows from the name of the target."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the line, with its subject in front."""
        return super().parse_args(ctx, self.named(args, is_complete=not ctx.resilient_parsing))

    def named(self, args: Sequence[str], *, is_complete: bool = True) -> list[str]:
        """The words with the subject in front; help alone, if that is asked for before any program.
        is_complete: False for a line whose end is not there, which is not refused.
        Raises UsageError: there is nothing to tune, or it is a misspelt subject."""
        given, rest = self._read(args)
        words = [word for word in rest if not word.startswith("-")]
        program = words[0] if words else ""
        if program in SUBJECTS:
            at = len(args) - len(rest) + rest.index(program)
            return [program, *args[:at], *args[at + 1 :]]
        if given.get("help"):
            return ["--help"]
        if given.get("older"):
            return ["server", *args]
        if not program and not given.get("module"):
            if is_complete:
                why = "usage: laptime tune [OPTIONS] SCRIPT.py|MODEL [ARGUMENTS]..."
                raise UsageError("SCRIPT.py|MODEL is missing", why=why, next="laptime tune --help")
            return ["script", *args] if args else []
        if not given.get("module") and is_model(program):
            return ["model", *args]
        near = closest(program, SUBJECTS)
        if is_complete and near and words[1:] and not given.get("module") and not Path(program).exists():
            raise UsageError(
                f"{program!r} is neither a script nor a model",
                why=f"laptime tune takes {', '.join(SUBJECTS)}, or what is tuned",
                next=f"did you mean laptime tune {near}?",
            )
        return ["script", *args]

    def _read(self, args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Options before the program, those of all subjects; and the program with what stands behind it."""
        subjects = SUBJECTS.values()
        known = {
            each.opts[-1]: each for subject in subjects for each in subject.params if each.opts[0][0] == "-"
        }
        wants_help = click.Option(["-h", "--help"], is_flag=True)
        reader = click.Command("tune", params=[*known.values(), wants_help], add_help_option=False)
        reader.allow_interspersed_args, reader.ignore_unknown_options = False, True
        context = click.Context(reader)
        try:
            given, rest, _ = reader.make_parser(context).parse_args([*args])
        except click.UsageError:  # the value of an option is missing: its subject says so
            given, rest = {}, [*args]
        return given, rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Subjects, the options that all of them have, and the names of the others."""
        subjects = [*SUBJECTS.values()]
        fields = [[(each.field.option, each.field.choices) for each in subject.asked] for subject in subjects]

        def is_shared(option: click.Option) -> bool:
            if not isinstance(option, Asked):
                return True
            return all((option.field.option, option.field.choices) in own for own in fields)

        with formatter.section("Subjects"):
            formatter.write_dl([(subject.name, subject.get_short_help_str(100)) for subject in subjects])
        with formatter.section("Options of all"):
            options = [param for param in subjects[0].get_params(ctx) if isinstance(param, click.Option)]
            records = [option.get_help_record(ctx) for option in options if is_shared(option)]
            formatter.write_dl([record for record in records if record])
        for subject in subjects:
            with formatter.section(f"And of {subject.many}, see laptime tune {subject.name} --help"):
                formatter.write_text(" ".join(each.opts[-1] for each in subject.asked if not is_shared(each)))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Subjects, targets and the options of every subject."""
        found = super().shell_complete(ctx, incomplete)
        words = {item.value for item in found}
        more = {
            flag for subject in SUBJECTS.values() for flag in subject.flags if flag.startswith(incomplete)
        }
        if not incomplete.startswith("-"):
            more = set(complete_targets(ctx, self.get_params(ctx)[0], incomplete))
        return [*found, *(CompletionItem(word) for word in sorted(more - words))]


def carry_out(verb: Callable[[Any, Listener], Run], request: Any, delivery: Delivery, items: str = "") -> int:
    """Run, keep and show a session. items: what a rate counts; "": samples, or steps."""
    save = request.save and not request.dry_run
    ended = delivery.watch(verb, request, save=save, describe=Lines(items))
    return _finish(ended, delivery)


def _carry_out_there(request: TuneRequest, delivery: Delivery) -> int:
    """The same on one of the machines of `--on`; what it hands back is written here."""
    from laptime.tuning import recipe_file
    from laptime.tuning.script import subject

    if request.patch is not None:
        why = "with --on it lies beside the script, there and here"
        raise UsageError("--patch names a file of this machine", why=why, next="leave out --patch")
    save = request.save and not request.dry_run
    ended = delivery.watch(subject.tune, request, save=save, describe=Lines(""), travels="tune")
    command = {name: getattr(request, name) for name in ("program", "arguments", "module")}
    try:
        recipe_file.write_here(ended[0], command)
    except OSError as error:
        next = f"laptime show {ended[0].id} -o page.html   has it, too"
        delivery.voice.complain(UsageError("the patch could not be written", why=str(error), next=next))
    return _finish(ended, delivery)


def _finish(ended: Recorded, delivery: Delivery) -> int:
    code = delivery.finish(ended, session_code(ended[0]))
    delivery.say_failures(ended[0])
    return code


@click.command("script", cls=TuneCommand, context_settings={"allow_interspersed_args": False})
@click.argument("program", metavar="SCRIPT.py", shell_complete=complete_targets)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@options.on_option
@ask_for(TuneRequest)
@report_options
def script(*, delivery: Delivery, program: str, arguments: tuple[str, ...], **given: Any) -> int:
    """Make a training script faster, and hand the change back as a patch.

    The script itself is not edited. tune first finds what limits its step, then races one change after
    another against it and compares outputs, losses, gradients and weights of a few steps with each: a
    gate, not a proof of a whole training. It measures all kept changes together in new processes and writes
    them as a patch. Options of laptime come before SCRIPT.py, options of the script after it. With --on, one
    of those machines does all of it: both sides of every pair are measured on the same one.

    Exit codes: 0 faster, 5 no change helped, 3 undecided, 1 the gate failed, 4 the
    script fails.

    \b
    laptime tune script train.py --epochs 10
    laptime tune script --budget 5m -o report.html -m package.train
    laptime tune script --only num_workers,channels_last train.py
    laptime tune script --dry-run train.py
    """
    from laptime.tuning.script import subject, switches  # not for `laptime tune --help`

    request = make_request(TuneRequest, given, program=program, arguments=[*arguments])
    request.check()
    if request.patch is not None:
        writable.file(request.patch, "--patch")
    own = {flag for option in SUBJECTS["script"].params for flag in option.opts if flag.startswith("-")}
    known = switches.words(program)
    for word in (word for word in arguments if word.partition("=")[0] in own - known):
        note = f"note: {word} goes to {program}, which does not know it"
        delivery.voice.say(f"{note}; options of laptime come before it")
    if delivery.on:
        return _carry_out_there(request, delivery)
    return carry_out(subject.tune, request, delivery)


@click.command("model", cls=TuneCommand)
@click.argument("target", metavar="MODEL", shell_complete=complete_targets)
@ask_for(ModelRequest)
@report_options
def model(*, delivery: Delivery, target: str, **given: Any) -> int:
    """Make a model run faster, and hand back a folder that runs without laptime.

    A MODEL is named as for `laptime bench`: torchvision:NAME, timm:NAME, file.py:FUNCTION, FILE.onnx. tune
    races changes of how it runs, compares its outputs with those of the unchanged model on inputs that no
    change has seen, and --export keeps the result as a folder.

    Exit codes: 0 faster, 5 no change helped, 3 undecided, 1 the gate failed, 4 the
    model fails.

    \b
    laptime tune model --goal latency --export fast torchvision:resnet18
    laptime tune model model.onnx --goal latency --slo 20ms@p99 --max-memory 2GB
    """
    from laptime.tuning.inference import subject  # not for `laptime tune --help`

    request = make_request(ModelRequest, given, target=target).complete()
    return carry_out(subject.tune_model, request, delivery, "items")


@click.command("server", cls=TuneCommand)
@click.argument("words", metavar="COMMAND", nargs=-1)
@click.option("--server", "older", default="", hidden=True, help="The command, as it was typed before.")
@ask_for(ServerRequest)
@report_options
def server(*, delivery: Delivery, words: tuple[str, ...], older: str, **given: Any) -> int:
    """Choose the flags of a server, and hand back its command line.

    COMMAND is one quoted argument, with {port} and choices in braces, today's value first. The server
    is started anew for each trial, loaded as by `laptime load`, and must give the same answers.

    Exit codes: 0 faster, 5 no flag helped, 3 undecided, 1 the gate failed, 4 the
    server fails.

    \b
    laptime tune server 'vllm serve M --port {port} --max-num-seqs {16,64}' --rate 4 --slo ttft=300ms@p95
    laptime tune server 'python serve.py --port {port} --workers {1,2}' --concurrency 8
    """
    from laptime.tuning.server import subject  # not for `laptime tune --help`

    command, *more = [*([older] if older else []), *words] or [""]
    if more or not command:
        what = f"{more[0]} is not part of the server's command" if more else "the server's COMMAND is missing"
        raise UsageError(what, why="write the whole command in one pair of quotes", next=EXAMPLE)
    request = make_request(ServerRequest, given, command=command).complete()
    items = "tokens" if request.load(request.at(1)).is_language_model else "requests"
    return carry_out(subject.tune_server, request, delivery, items)


SUBJECTS: dict[str, Any] = {"script": script, "model": model, "server": server}
script.many = "training scripts"
script.reason = "a script makes its own batches, and a patch is handed back"
model.many = "models"
model.reason = "a model has no arguments, no steps and no source that is patched"
server.many = "servers"
server.reason = "only the flags of a server are tuned"


@click.command("tune", cls=Tune, commands=SUBJECTS, subcommand_metavar="[script|model|server] SUBJECT...")
@options.voice_options
def command() -> None:
    """Make a training script, a model or a server faster, with proof, and hand the change back.

    The name decides what is tuned: `laptime tune train.py` is `laptime tune script train.py`, and
    `laptime tune torchvision:resnet18` is `laptime tune model torchvision:resnet18`.

    \b
    laptime tune train.py --epochs 10
    laptime tune --budget 5m -o report.html -m package.train
    laptime tune --only num_workers,channels_last train.py
    laptime tune --goal latency --export fast torchvision:resnet18
    laptime tune model.onnx --goal latency --slo 20ms@p99 --max-memory 2GB
    laptime tune server 'vllm serve M --port {port} --max-num-seqs {16,64}' --rate 4 --slo ttft=300ms@p95
    """
