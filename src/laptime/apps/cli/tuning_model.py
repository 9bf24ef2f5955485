"""`laptime tune MODEL`: the options of `tune` as they are meant for a model."""

from __future__ import annotations

from typing import Any

import click

from laptime.apps.cli import tuning
from laptime.kit.errors import UsageError
from laptime.records.plan import Origin
from laptime.store.recording import Recorded

_OF_SCRIPTS = ("arguments", "steps", "extra", "patch", "step_by", "earlier")
_OF_MODELS = ("batch", "device", "export", "inputs", "instances", "metric", "slo")
_OPTIONS = {"extra": "--with", "step_by": "--step-by", "earlier": "--no-earlier"}


def is_model(program: str) -> bool:
    """Whether the word behind `tune` names a model."""
    from laptime.tuning.inference import request  # not for `laptime --help`

    return request.is_model(program)


class TuneCommand(click.Command):
    """`tune`, whose options stand before a script and on either side of a model.

    What stands behind a script is the script's own; a model has no arguments.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        behind, program = ctx.params.get("arguments"), ctx.params.get("program")
        if not behind or program is None or ctx.params["module"] or not is_model(program):
            return rest
        before = given[: len(given) - len(behind) - 1]
        ctx.params.clear()
        ctx.allow_interspersed_args = True
        return super().parse_args(ctx, [*before, program, *behind])


def tune(settings: dict[str, Any], origins: dict[str, Origin], *, quiet: bool) -> Recorded:
    """Run and store a session.

    Raises:
        UsageError: an option is one of scripts. Others: see `tune_model`.
    """
    from laptime.tuning.inference.request import ModelRequest
    from laptime.tuning.inference.subject import tune_model

    program = settings["program"]
    for name in _OF_SCRIPTS:
        if settings[name] if name != "earlier" else not settings[name]:
            option = _OPTIONS.get(name, f"--{name}") if name != "arguments" else str(settings[name][0])
            raise UsageError(
                f"{option} is for training scripts",
                why=f"{program} is a model: it has no arguments, no steps and no source that is patched",
                next=f"laptime tune {program}",
            )
    _refuse_choices(settings)
    request = ModelRequest(
        target=program,
        goal=settings["goal"],
        batch=settings["batch"][0] if settings["batch"] else 0,
        batches=settings["batch"] or [],
        instances=settings["instances"]
        or ([] if "goal" in origins and settings["goal"] == "throughput" else [1]),
        device=settings["device"] or "auto",
        python=settings["python"],
        inputs=settings["inputs"],
        metric=settings["metric"],
        slo=settings["slo"],
        max_memory=settings["max_memory"],
        budget=settings["budget"],
        allow=list(settings["allow"]),
        only=settings["only"],
        skip=settings["skip"],
        certify=settings["certify"],
        resume=settings["resume"],
        dry_run=settings["dry_run"],
        export=settings["export"],
        timeout=settings["timeout"],
        name=settings["name"],
        save=settings["save"],
        origins=origins,
    )
    save = request.save and not request.dry_run
    return tuning.record(tune_model, request, save=save, quiet=quiet, items="items")


def _refuse_choices(settings: dict[str, Any]) -> None:
    if "algorithm" in settings["allow"]:
        raise UsageError(
            "--allow algorithm is for training scripts",
            why="a model is not trained",
            next="--allow precision",
        )
    if settings["strict"] and settings["allow"]:
        raise UsageError(
            "--strict and --allow precision contradict each other",
            why="--strict leaves out what rounds to fewer bits",
            next="leave out one of them",
        )


def refuse_for_scripts(settings: dict[str, Any]) -> None:
    """Options of models, taken out of the settings of a script.

    Raises:
        UsageError: one of them was given.
    """
    program = settings["program"]
    for name in _OF_MODELS:
        if settings.pop(name):
            raise UsageError(
                f"--{name} is for models",
                why=f"{program} is a script: it makes its own batches, and a patch is handed back",
                next=f"laptime tune {program}",
            )
    if settings["goal"] in ("latency", "cost"):
        raise UsageError(
            f"--goal {settings['goal']} is for models",
            why=f"{program} is a script, and what counts in training is throughput",
            next=f"laptime tune {program}",
        )
    if "precision" in settings["allow"]:
        raise UsageError(
            "--allow precision is for models",
            why="changes of precision are tried for scripts anyway, --strict leaves them out",
            next=f"laptime tune {program}",
        )
