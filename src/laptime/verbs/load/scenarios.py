"""MLPerf's scenarios (Reddi et al., MLPerf Inference Benchmark, ISCA 2020, 4.2) as levels of load.

SingleStream    one user, who sends again when the answer is there; its figure is the p90 latency
Server          requests come at random (poisson) at a rate; the figure is the rate that keeps a promise
Offline         all requests are there at once; the figure is how many are answered per second
"""

from __future__ import annotations

from msgspec import structs

from laptime.kit.errors import UsageError, unknown
from laptime.verbs.load.request import LoadRequest

NAMES = ("SingleStream", "Server", "Offline")


def applied(request: LoadRequest) -> LoadRequest:
    """The request with what its scenario means.

    Raises:
        UsageError: there is no such scenario, or other options say something else.
    """
    if not request.scenario:
        return request
    known = {name.lower(): name for name in NAMES}
    name = known.get(request.scenario.lower().replace("-", "").replace("_", ""))
    if name is None:
        raise unknown("scenario", request.scenario, NAMES, option="--scenario")
    request = structs.replace(request, scenario=name)
    if name == "Server":
        return _server(request)
    if request.rates or request.trace or request.find_peak:
        raise _refused(name, "--rate, --trace and --find-peak", "it has no rate: requests come as answers do")
    if name == "Offline":
        return request
    if request.concurrency not in ([], [1]):
        raise _refused(name, "--concurrency", "it has one user")
    return structs.replace(request, concurrency=[1])


def _server(request: LoadRequest) -> LoadRequest:
    if request.arrivals != "poisson" or request.trace:
        raise _refused("Server", "--arrivals and --trace", "its requests come at random, --arrivals poisson")
    if not (request.rates or request.find_peak):
        raise UsageError(
            "the scenario Server needs a rate",
            why="its requests come at so many per second, at random",
            next="--scenario Server --rate 8, or --find-peak --slo latency=50ms@p99",
        )
    return request


def _refused(name: str, options: str, why: str) -> UsageError:
    return UsageError(f"{options} do not go with --scenario {name}", why=why, next="leave one of them out")
