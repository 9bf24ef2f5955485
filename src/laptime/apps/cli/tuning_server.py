"""`laptime tune --server`: the options of `tune` as they are meant for the flags of a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from laptime.apps.cli import tuning
from laptime.apps.cli.options import Decorated
from laptime.kit import typed
from laptime.kit.errors import UsageError
from laptime.records.plan import Origin
from laptime.store.recording import Recorded

_OPTIONS = (
    click.option(
        "--server",
        default="",
        metavar="COMMAND",
        help="Tune a server's flags: its command, with {port} and choices in braces, today's value first.",
    ),
    click.option(
        "--url", default="", metavar="URL", help="Of the server.  [default: http://127.0.0.1:{port}/v1]"
    ),
    click.option(
        "--rate", type=click.FloatRange(min=0, min_open=True), metavar="R", help="Requests per second on it."
    ),
    click.option(
        "--concurrency", type=click.IntRange(1), metavar="N", help="Users who wait for its answers."
    ),
    click.option(
        "--body", type=click.Path(path_type=Path), metavar="FILE", help="What is sent; .jsonl: a line each."
    ),
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent with each request."
    ),
    click.option(
        "--prompt",
        type=click.IntRange(1),
        metavar="N",
        help="Tokens of a prompt; the answer's: --output N.  [default: 128 and 64]",
    ),
)
_NAMES = ("server", "url", "rate", "concurrency", "body", "headers", "prompt")
_OTHERS = (
    "program", "arguments", "module", "steps", "strict", "only", "skip", "extra", "batch", "instances",
    "device", "inputs", "metric", "export", "max_memory", "patch", "step_by", "python",
)  # fmt: skip
_TYPED = {"module": "-m", "extra": "--with", "headers": "--header", "earlier": "--no-earlier"}


def server_options(command: Decorated) -> Decorated:
    """Those of `tune` that only servers have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def refuse_for_others(settings: dict[str, Any], tokens: list[int]) -> None:
    """Options of servers, taken out of the settings of a script or a model.

    Raises:
        UsageError: one of them was given.
    """
    given = [name for name in _NAMES if settings.pop(name)]
    if given or tokens:
        option = _option(given[0]) if given else f"--output {tokens[0]}"
        raise UsageError(
            f"{option} is for servers",
            why=f"{settings['program']} is no server: nothing is sent to it",
            next="laptime tune --server 'COMMAND --port {port} --flag {1,2}' --concurrency 8",
        )


def tune(
    settings: Mapping[str, Any], origins: dict[str, Origin], tokens: list[int], *, quiet: bool
) -> Recorded:
    """Run and store a session.

    Args:
        tokens: of an answer; [] for the default.

    Raises:
        UsageError: an option is one of scripts or models. Others: see `tune_server`.
    """
    from laptime.tuning.server.request import ServerRequest
    from laptime.tuning.server.subject import tune_server

    _refuse(settings)
    goal = settings["goal"]
    if "goal" not in origins:
        goal = "latency" if settings["rate"] else "throughput"
    given = {**settings, "output": tokens[-1] if tokens else None}
    names = ("url", "rate", "concurrency", "prompt", "output")
    named: dict[str, Any] = {name: given[name] for name in names if given[name]}
    request = ServerRequest(
        command=settings["server"],
        **named,
        bodies=typed.bodies(settings["body"]) if settings["body"] else [],
        body=str(settings["body"] or ""),
        headers=typed.headers(settings["headers"]),
        slo=settings["slo"],
        goal=goal,
        differs="precision" in settings["allow"],
        budget=settings["budget"],
        certify=settings["certify"],
        resume=settings["resume"],
        dry_run=settings["dry_run"],
        timeout=settings["timeout"],
        name=settings["name"],
        save=settings["save"],
        origins=origins,
    )
    items = "tokens" if request.load(request.at(1)).is_language_model else "requests"
    save = request.save and not request.dry_run
    return tuning.record(tune_server, request, save=save, quiet=quiet, items=items)


def _refuse(settings: Mapping[str, Any]) -> None:
    """Options and goals of scripts and models."""
    given = [name for name in _OTHERS if settings[name]] + ["earlier"] * (not settings["earlier"])
    if given:
        name = given[0]
        is_word = name in ("program", "arguments")
        word = settings[name] if name == "program" else settings[name][0] if is_word else _option(name)
        raise UsageError(
            f"{word} is not part of the server's command" if is_word else f"{word} is not for servers",
            why="the whole command stands in one pair of quotes" if is_word else "only its flags are tuned",
            next="laptime tune --server 'COMMAND --port {port} --flag {1,2}' --concurrency 8",
        )
    if settings["goal"] in ("memory", "cost"):
        raise UsageError(
            f"--goal {settings['goal']} is not for servers",
            why="load tells what is answered per second, and how late",
            next="--goal throughput --concurrency 16   or   --goal latency --rate 4",
        )
    if "algorithm" in settings["allow"]:
        raise UsageError(
            "--allow algorithm is for training scripts",
            why="a server trains nothing",
            next="--allow precision   if its answers may differ",
        )
    if settings["body"] and not settings["url"]:
        raise UsageError(
            "where the body is sent is not said",
            why="--body is for any server, and each has paths of its own",
            next="--url http://127.0.0.1:{port}/predict",
        )


def _option(name: str) -> str:
    return _TYPED.get(name, f"--{name.replace('_', '-')}")
