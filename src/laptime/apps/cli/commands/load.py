"""Put load on an endpoint or a model, and find the highest rate that keeps a promise."""

import math
from typing import Any

import click
from msgspec import structs

from laptime.apps.cli.options import ask_for, make_request, on_option, report_options
from laptime.apps.cli.output import Delivery
from laptime.verbs.load.request import LoadRequest


@click.command("load")
@click.argument("target", metavar="URL|TARGET")
@ask_for(LoadRequest)
@on_option
@report_options
def command(*, delivery: Delivery, target: str, **given: Any) -> int:
    """Put load on an endpoint or a model, and find the highest rate that keeps a promise.

    URL is an address (http://127.0.0.1:9000/predict); TARGET is a target of `laptime bench`, with a queue in
    front of it. Requests are due at times that were drawn before the first is sent, and latency counts from
    then: if a server stops, later requests wait, and that wait is counted.

    \b
    laptime load http://127.0.0.1:9000/predict --body x.json --rate 10,20,40
    laptime load http://127.0.0.1:9000/predict --body x.json --concurrency 1,8
    laptime load http://127.0.0.1:8000/v1 --rate 2,4,8 --prompt 512 --output-tokens 128
    laptime load http://127.0.0.1:8000/v1 --find-peak --slo ttft=300ms@p95,itl=40ms@p95 --usd-per-hour 4
    laptime load torchvision:resnet18 --rate 40
    laptime load null:exp=20ms --rate 40        the generator itself, against a known answer
    """
    from laptime.verbs.load.run import load  # not for `laptime --help`

    request = make_request(LoadRequest, given, target=target)
    if request.duration == math.inf:
        request = structs.replace(request, duration=None, auto=True)
    return delivery.finish(delivery.watch(load, request, save=request.save, travels="load"))
