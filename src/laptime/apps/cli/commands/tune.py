"""Make a training script or a model faster, with proof: a patch, or a folder that runs by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from laptime.apps.cli import completing, output, tuning, tuning_model, tuning_server
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import (
    flags,
    reader,
    report_options,
    store_options,
    time_option,
    voice_options,
)
from laptime.kit import registry
from laptime.kit.errors import ExitCode, UsageError
from laptime.kit.text import closest
from laptime.kit.typed import integers, words
from laptime.kit.units import size
from laptime.records.plan import Origin
from laptime.store import writable
from laptime.store.recording import Recorded


def _names(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[str]:
    """`--only a,b --only c` as names, each once, `-` as `_`."""
    return list(dict.fromkeys(word.replace("-", "_") for text in texts for word in words(text)))


_NUMBERS = reader(lambda text: integers(text) if text else [])
"""Numbers with commas between them; none where none were typed."""


@click.command(
    "tune",
    cls=tuning_model.TuneCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.argument("program", metavar="SCRIPT.py|MODEL", required=False, shell_complete=completing.targets)
@click.argument("arguments", nargs=-1, metavar="[ARGUMENTS]...", type=click.UNPROCESSED)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as for `python -m`.")
@time_option("--budget", "Time limit of the whole session: 90s, 10m, 1h.  [default: 10m]", default=600.0)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=None,
    callback=lambda context, option, value: value or 0,
    help="Steps timed together as one block. [default: chosen from the length of a step]",
)
@click.option(
    "--allow",
    type=click.Choice(["algorithm", "precision"]),
    multiple=True,
    help="Also try changes of this class: algorithm (scripts) changes the batch size and the learning rate, "
    "precision (models) rounds to fewer bits.",
)
@click.option("--strict", is_flag=True, help="Leave out changes that alter random numbers or precision.")
@click.option(
    "--only",
    multiple=True,
    callback=_names,
    shell_complete=completing.extensions("optimizations"),
    metavar="NAME,...",
    help="Try only these optimizations. Repeatable.",
)
@click.option(
    "--skip",
    multiple=True,
    callback=_names,
    shell_complete=completing.extensions("optimizations"),
    metavar="NAME,...",
    help="Leave these optimizations out. Repeatable.",
)
@click.option(
    "--with",
    "extra",
    multiple=True,
    type=click.Path(dir_okay=False),
    metavar="FILE.py",
    help="File with another optimization to try. Repeatable.",
)
@click.option(
    "--goal",
    type=click.Choice(["throughput", "memory", "latency", "cost"]),
    default="throughput",
    show_default=True,
    help="What to improve: latency and cost (CPU seconds an item) of models only.",
)
@click.option(
    "--batch",
    default="",
    callback=_NUMBERS,
    metavar="N,...",
    help="Items in a call of the model; of several the best is chosen. [default: as its inputs are given]",
)
@click.option(
    "--instances",
    default="",
    callback=_NUMBERS,
    metavar="N,...",
    help="Processes of the model at once, each on CPUs of its own; the best number is chosen. "
    "[default: 1; with --goal throughput on a CPU 1, 2, 4 ... as far as CPUs and memory reach]",
)
@click.option(
    "--device",
    default="",
    metavar="NAME",
    help="Where a model runs: cpu, cuda, cuda:1. [default: the first CUDA device, else the CPU]",
)
@click.option(
    "--inputs",
    default="",
    metavar="FILE.py:FUNCTION",
    help="Function that gives samples: a list or generator of the inputs of one call each.",
)
@click.option(
    "--metric",
    default="",
    metavar="FILE.py:FUNCTION",
    help="Function that scores a list of outputs for these samples; more is better.",
)
@click.option(
    "--slo",
    default="",
    metavar="20ms@p99",
    help="Latency that the tuned model has to keep; judged by the upper end of the interval.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="New folder for the tuned model: tuned.py, which runs without laptime, and recipe.json.",
)
@click.option(
    "--max-memory",
    callback=reader(size),
    metavar="SIZE",
    help="Memory limit of a trial, or of a model's process: 8GB. [default of trials: what is free]",
)
@click.option(
    "--certify",
    is_flag=True,
    help="Keep the error rate over all candidates and looks together; slower.",
)
@click.option("--resume", is_flag=True, help="Continue the last session of the same script, model or server.")
@click.option(
    "--no-earlier",
    "earlier",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Order changes without what earlier sessions on this machine have shown of them.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only diagnose; list what would be tried and how long it would take."
)
@click.option(
    "--patch",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File to write the patch to. [default: SCRIPT.laptime.patch]",
)
@click.option(
    "--step-by",
    type=click.Choice(["optimizer", "loader", "forward"]),
    callback=lambda context, option, value: value or "",
    help="What ends a step. [default: the first of these that the script has]",
)
@tuning_server.server_options
@tuning.trial_options
@store_options
@report_options
@voice_options
@click.pass_context
def command(context: click.Context, /, outputs: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Make a training script or a model faster, with proof, and hand the change back.

    The script itself is not edited. tune first finds what limits its step, then races one change after
    another against it and compares outputs, losses, gradients and weights of a few steps with each: a
    gate, no proof of a whole training. It measures all kept changes together in new processes and writes
    them as a patch. Options of laptime come before SCRIPT.py, those of the script after it.

    Exit codes: 0 faster, 5 no change helped, 3 undecided, 1 the gate failed, 4 the
    script fails.

    A MODEL is named as for `laptime bench`: torchvision:NAME, timm:NAME, file.py:FUNCTION, FILE.onnx. Changes
    of how it runs are raced the same way, its outputs are compared with those of the model as it is on inputs
    that no change has seen, and --export keeps the result as a folder.

    A --server is started anew for each trial and loaded as by `laptime load`; the command line that was best
    is handed back.

    \b
    laptime tune train.py --epochs 10
    laptime tune --budget 5m -o report.html -m package.train
    laptime tune --only num_workers,channels_last train.py
    laptime tune --dry-run train.py
    laptime tune --goal latency --export fast torchvision:resnet18
    laptime tune model.onnx --goal latency --slo 20ms@p99 --max-memory 2GB
    laptime tune --server 'vllm serve M --port {port} --max-num-seqs {16,64}' --rate 4 --slo ttft=300ms@p95
    """
    voice = context.find_object(Voice) or Voice()
    tokens = [
        int(each) for each in outputs if each.isdigit()
    ]  # `--output 64` is tokens, `--output a.html` a file
    reports = output.planned([each for each in outputs if not each.isdigit()])
    if settings["patch"] is not None:
        writable.file(settings["patch"], "--patch")
    origins = flags(context, settings)
    if settings["server"]:
        recorded = tuning_server.tune(settings, origins, tokens, quiet=voice.quiet)
    else:
        if settings["program"] is None:
            raise click.MissingParameter(ctx=context, param=context.command.params[0])
        tuning_server.refuse_for_others(settings, tokens)
        recorded = _of_program(settings, origins, quiet=voice.quiet)
    delivered = tuning.deliver(recorded, reports, as_json=as_json, voice=voice)
    code = tuning.exit_code(recorded[0])
    return code if code == ExitCode.INTERRUPTED else delivered or code


def _of_program(settings: dict[str, Any], origins: dict[str, Origin], *, quiet: bool) -> Recorded:
    """Run and store a session that tunes a script or a model."""
    # Not at the top: `laptime --help` imports no verb.
    from laptime.tuning.script import subject as verb
    from laptime.tuning.script.request import TuneRequest

    if not settings["module"] and tuning_model.is_model(settings["program"]):
        return tuning_model.tune(settings, origins, quiet=quiet)
    tuning_model.refuse_for_scripts(settings)
    _check_names(settings["only"], settings["skip"], settings["extra"])
    for name in ("arguments", "allow", "extra"):
        settings[name] = list(settings[name])
    request = TuneRequest(**settings, origins=origins)
    save = request.save and not request.dry_run
    return tuning.record(verb.tune, request, save=save, quiet=quiet)


def _check_names(only: Sequence[str], skip: Sequence[str], extra: Sequence[str]) -> None:
    """Refuse a typing mistake before it costs ten minutes.

    Raises:
        UsageError: no optimization has this name, or --only and --skip both have it.
    """
    optimizations = [*registry.names("optimizations"), *(Path(path).stem for path in extra)]
    for option, names in (("only", only), ("skip", skip)):
        for name in names:
            if name not in optimizations:
                near = closest(name, optimizations)
                raise UsageError(
                    f"--{option}: no optimization is called {name!r}",
                    why=f"known: {', '.join(optimizations)}",
                    next=f"did you mean --{option} {near}?" if near else "laptime tune --help",
                )
    if both := [name for name in only if name in skip]:
        raise UsageError(
            f"{both[0]} stands behind both --only and --skip",
            why="--only tries it and --skip leaves it out",
            next=f"leave out one of them: --only {','.join(only)}",
        )
