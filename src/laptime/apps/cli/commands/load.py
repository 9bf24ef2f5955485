"""Put load on an endpoint or a model, and find the highest rate that keeps a promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from laptime.apps.cli import measuring, output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.measuring_options import integers, read_by, time_option, words
from laptime.apps.cli.options import flags, report_options, store_options, voice_options
from laptime.apps.cli.progress import progress
from laptime.apps.cli.sending import read_body, read_header
from laptime.kit.errors import ExitCode, UsageError
from laptime.kit.quantity import seconds
from laptime.store.recording import recorded


def _rates(text: str) -> list[float]:
    """`2,4,8` as numbers above zero."""
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise UsageError(
            f"{text!r} is not a list of rates",
            why="requests per second, with commas between them",
            next="--rate 2,4,8",
        ) from None


def _duration(text: str) -> float:
    """Seconds; infinite for `auto`."""
    return math.inf if text.strip() == "auto" else seconds(text)


@click.command("load")
@click.argument("target", metavar="URL|TARGET")
@click.option(
    "--rate", "rates", callback=read_by(_rates), metavar="R,R", help="Requests per second; a level each."
)
@click.option(
    "--concurrency",
    callback=read_by(integers),
    metavar="N,N",
    help="Users who wait for each answer; a level each. With --rate: the most requests under way at once.",
)
@click.option(
    "--scenario",
    default="",
    metavar="NAME",
    help="MLPerf's SingleStream (one user), Server (--rate) or Offline (all requests at once).",
)
@click.option(
    "--arrivals",
    default="poisson",
    show_default=True,
    metavar="LAW",
    help="Law of the gaps between requests: constant, poisson or gamma.",
)
@click.option("--shape", type=float, default=0.5, show_default=True, help="Of gamma gaps; below 1 is bursty.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE", help="When requests are due: a time a line."
)
@click.option(
    "--duration",
    callback=read_by(_duration),
    metavar="TIME | auto",
    help="Length of a level; auto: until its figures are known to 5 %, at most --budget.  [default: 10s]",
)
@click.option(
    "--requests", type=click.IntRange(min=1), metavar="N", help="Requests of a level, instead of a time."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the schedule.")
@click.option(
    "--method", metavar="WORD", default="", help="GET, POST ...  [default: POST with a body, else GET]"
)
@click.option(
    "--body", type=click.Path(path_type=Path), metavar="FILE", help="What is sent; .jsonl: a line each."
)
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Sent with each request, not stored.",
)
@click.option(
    "--model", metavar="NAME", default="", help="Of a language model's server.  [default: its first]"
)
@click.option(
    "--prompt",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    metavar="N",
    help="Tokens of a prompt; the answer's: --output N.",
)
@click.option(
    "--shared-prefix",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Tokens that all prompts begin with.",
)
@click.option(
    "--turns",
    type=click.IntRange(1, 100),
    default=1,
    metavar="N",
    help="Requests of a conversation: each holds what was said before.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A tokenizer.json: prompts are cut by it. The server's counts are told all the same.",
)
@click.option(
    "--slo",
    metavar="ttft=300ms@p95",
    default="",
    help="Promises: latency, ttft, itl or tpot; commas between.",
)
@click.option("--find-peak", is_flag=True, help="Find the highest rate that keeps the promises.")
@time_option("--budget", "Seconds of sending of --find-peak.", default="4m")
@click.option("--usd-per-hour", type=float, metavar="USD", help="Price of the machine that serves.")
@time_option("--timeout", "A request that takes longer has failed.", default="60s")
@click.option("--insecure", is_flag=True, help="Do not check the certificate.")
@click.option("--senders", type=click.IntRange(1, 64), metavar="N", help="Processes that send.  [default: 1]")
@click.option("--yes-remote", "remote", is_flag=True, help="The address is not this machine, and it is mine.")
@store_options
@report_options
@voice_options
@click.pass_context
def command(
    context: click.Context,
    /,
    outputs: tuple[str, ...],
    as_json: bool,
    body: Path | None,
    headers: tuple[str, ...],
    insecure: bool,
    **given: Any,
) -> int:
    """Put load on an endpoint or a model, and find the highest rate that keeps a promise.

    URL is an address (http://127.0.0.1:9000/predict); TARGET is what `laptime bench` takes, with a queue in
    front of it. Requests are due at times that were drawn before the first is sent, and latency counts from
    then: a server that stands still makes those behind it wait, and that is told.

    \b
    laptime load http://127.0.0.1:9000/predict --body x.json --rate 10,20,40
    laptime load http://127.0.0.1:9000/predict --body x.json --concurrency 1,8
    laptime load http://127.0.0.1:8000/v1 --rate 2,4,8 --prompt 512 --output 128
    laptime load http://127.0.0.1:8000/v1 --find-peak --slo ttft=300ms@p95,itl=40ms@p95 --usd-per-hour 4
    laptime load torchvision:resnet18 --rate 40
    laptime load null:exp=20ms --rate 40        the generator itself, against a known answer
    """
    from laptime.verbs.load import LoadRequest, load  # not for `laptime --help`

    voice = context.find_object(Voice) or Voice()
    files = [each for each in outputs if not each.isdigit()]
    if tokens := [int(each) for each in outputs if each.isdigit()]:
        given["output"] = max(1, tokens[-1])  # `--output 128` is tokens, `--output a.html` a file
    if given["duration"] == math.inf:
        given |= {"duration": None, "auto": True}
    planned = output.planned(files)
    request = LoadRequest(
        **{name: value for name, value in given.items() if value is not None},
        bodies=read_body(body) if body else [],
        headers=[read_header(text) for text in headers],
        verify=not insecure,
        origins=flags(context, given),
    )
    with progress(quiet=voice.quiet) as show:
        run, complaint = recorded(lambda emit: load(request, emit), show, save=request.save)
    delivered = measuring.deliver(run, planned, format="json" if as_json else "text", voice=voice)
    if complaint:
        delivered = voice.complain(complaint)
    code = measuring.exit_code(run)
    return code if code == ExitCode.INTERRUPTED else delivered or code
