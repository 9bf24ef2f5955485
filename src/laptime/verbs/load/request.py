"""The request of `laptime load`."""

import math
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct

from laptime.analysis.promises import promises
from laptime.kit import redaction, typed
from laptime.kit.errors import UsageError, refuse_not_positive, unknown
from laptime.kit.options import Option
from laptime.kit.units import seconds
from laptime.records.plan import Name, Origin, Save

_PLAIN = re.compile(r"(localhost|[\w-]+(\.[\w-]+){1,9}|\[[\da-fA-F:]+\]):\d+(/|$)")
BUDGET = 240.0  # seconds of sending of a search for the peak
DURATION = 10.0  # seconds of a level if no time is given
Bodies = Annotated[
    list[str], Option("File to send; .jsonl: a line a request.", "FILE", flags="--body", read=typed.bodies)
]
Headers = Annotated[
    list[tuple[str, str]],
    Option(
        "Sent with each request, not stored; @FILE: one a line, so that no token stands on the line.",
        "'NAME: VALUE'|@FILE",
        flags="-H --header",
        read=typed.headers,
        repeatable=True,
    ),
]


def _duration(text: str) -> float:  # no lambda: annotations are read without this file's names
    return math.inf if text.strip() == "auto" else seconds(text)


class LoadRequest(Struct, frozen=True, kw_only=True):
    """The request of `laptime load`."""

    target: str  # an address, or whatever `laptime bench` takes
    rates: Annotated[
        list[float],
        Option("Requests per second; each value is one level.", "R,R", flags="--rate", read=typed.rates),
    ] = []
    concurrency: Annotated[
        list[int],
        Option(
            "Users who wait for each answer; each value is one level. With --rate: most requests in flight.",
            "N,N",
            read=typed.integers,
        ),
    ] = []
    scenario: Annotated[
        str,
        Option(
            "MLPerf's SingleStream (one user), Server (--rate) or Offline (all requests at once).", "NAME"
        ),
    ] = ""
    arrivals: Annotated[str, Option("Request spacing: constant, poisson or gamma.", "LAW")] = "poisson"
    shape: Annotated[float, Option("Shape of gamma spacing; below 1, requests come in bursts.")] = 0.5
    trace: Annotated[Path | None, Option("File of times to send at, one a line.", "FILE")] = None
    # of one level; None with `auto`, which is until the level has told enough, at most `budget`
    duration: Annotated[
        float | None,
        Option(
            "Length of a level; auto: until results are known to 5 %, at most --budget.  [default: 10s]",
            "TIME | auto",
            read=_duration,
        ),
    ] = None
    auto: bool = False
    requests: Annotated[int | None, Option("Requests in a level, not a duration.", "N", least=1)] = None
    seed: Annotated[int, Option("Seed of the schedule.")] = 0
    method: Annotated[str, Option("HTTP method.  [default: POST with a body, else GET]", "WORD")] = ""
    bodies: Bodies = []  # used in turn
    headers: Headers = []  # secrets among them
    model: Annotated[str, Option("Model to ask for.  [default: the server's first]", "NAME")] = ""
    prompt: Annotated[int, Option("Prompt length in tokens.", "N", least=1)] = 128
    # tokens of a language model's answer
    output: Annotated[int, Option("Answer length in tokens.", "N", flags="--output-tokens", least=1)] = 64
    shared_prefix: Annotated[int, Option("Tokens that all prompts share at their start.", "N", least=0)] = 0
    turns: Annotated[
        int,
        Option("Requests in a conversation; each repeats the messages before it.", "N", least=1, most=100),
    ] = 1
    tokenizer: Annotated[
        Path | None,
        Option("Cut prompts with this tokenizer.json; results still use the server's counts.", "PATH"),
    ] = None
    slo: Annotated[str, Option("Limits on latency, ttft, itl and tpot, with commas.", "ttft=300ms@p95")] = ""
    find_peak: Annotated[bool, Option("Find the highest rate that keeps --slo.")] = False
    # of sending, when the peak is looked for
    budget: Annotated[float, Option("Total sending time of --find-peak.", "TIME", read=seconds)] = BUDGET
    usd_per_hour: Annotated[float | None, Option("Price of the server's machine.", "USD")] = None
    timeout: Annotated[float, Option("Time limit of a request.", "TIME", read=seconds)] = 60.0
    verify: Annotated[bool, Option("Do not verify the server's certificate.", flags="--insecure")] = True
    senders: Annotated[int | None, Option("Sender processes.  [default: 1]", "N", least=1, most=64)] = None
    remote: Annotated[
        bool, Option("Send to another machine, with its owner's consent.", flags="--yes-remote")
    ] = False
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = {}

    @property
    def is_language_model(self) -> bool:
        """Whether the target is an address of OpenAI's API: it ends in /v1, /completions or the like."""
        path = urlsplit(self.target).path.rstrip("/") if self.is_endpoint else ""
        return path.endswith(("/v1", "/v1/completions", "/v1/chat/completions")) and not self.bodies

    @property
    def is_chat(self) -> bool:
        """Whether the language model can be asked by OpenAI's chat API."""
        return self.is_language_model and not self.target.rstrip("/").endswith("/v1/completions")

    @property
    def is_endpoint(self) -> bool:
        """Whether the target is an address."""
        return self.target.startswith(("http://", "https://"))

    def check(self) -> None:
        """Raise what is wrong with the options themselves.
        Raises UsageError: a number is impossible, or options do not go together."""
        from laptime.loadgen.arrivals import LAWS  # not for `laptime load --help`

        refuse_not_positive(
            *(("--rate", rate, "8") for rate in self.rates),
            ("--shape", self.shape, "0.5"),
            ("--usd-per-hour", self.usd_per_hour, "4"),
        )
        if any(users < 1 for users in self.concurrency):
            raise UsageError(
                "--concurrency 0 is impossible", why="no user would send requests", next="--concurrency 1"
            )
        if self.arrivals not in LAWS:
            raise unknown(
                "law of arrivals", self.arrivals, LAWS, option="--arrivals", example="--arrivals poisson"
            )
        if not (self.method or "GET").isalpha():
            why = "a method is one word of letters"
            raise UsageError(f"--method {self.method!r} is impossible", why=why, next="--method POST")
        if _PLAIN.match(self.target):
            why, target = "an address begins with http:// or https://", redaction.address(self.target)
            raise UsageError(f"{target} names no protocol", why=why, next=f"http://{target}")
        self._check_levels()
        self._check_tokens()
        if self.is_endpoint:
            try:
                url = urlsplit(self.target)
                host, why = url.hostname if url.port != 0 else "", "it names no host, or port 0"
            except ValueError as error:
                host, why = "", str(error)
            if not host:
                raise UsageError(
                    f"{redaction.address(self.target)} is not an address", why=why, next="http://127.0.0.1:80"
                )
            if not self.remote and not typed.is_loopback(host):
                raise UsageError(
                    f"{host} is not this machine",
                    why="load on a server that is not yours is an attack, and may cost money",
                    next="--yes-remote   if it is yours",
                )
        elif self.bodies or self.headers:
            what = "--body and --header are for an address"
            raise UsageError(what, why=f"{self.target} makes its own inputs", next="leave them out")

    def _check_levels(self) -> None:
        """Raise if it is not said how much load, or said twice."""
        if self.find_peak and not self.slo:
            why, next = "the peak is the highest rate that keeps it", "--find-peak --slo latency=50ms@p99"
            raise UsageError("--find-peak needs a promise", why=why, next=next)
        if not (self.rates or self.concurrency or self.trace or self.find_peak or self.scenario):
            raise UsageError(
                "no load was given",
                why="a level is a rate (requests per second) or a number of users",
                next=f"laptime load {redaction.address(self.target)} --rate 2,4,8",
            )
        if self.turns > 1 and not self.is_chat:
            why, next = "each turn repeats the conversation so far", "http://HOST:PORT/v1, without --body"
            raise UsageError("--turns is for the chat of a language model's server", why=why, next=next)
        if self.rates and len(self.concurrency) > 1:
            raise UsageError(
                "--rate and several values of --concurrency do not go together",
                why="with a rate, --concurrency limits how many requests are in flight",
                next="--concurrency 1,8,32 without --rate",
            )
        if self.trace is not None and self.rates:
            raise UsageError(
                "--trace and --rate do not go together", why="the file sets the times", next="leave one out"
            )
        if self.auto and (self.requests or self.trace or self.find_peak or self.scenario == "Offline"):
            what = "--duration auto does not go with --requests, --trace, --find-peak and --scenario Offline"
            raise UsageError(what, why="each of them sets how long a level is", next="leave one of them out")

    def _check_tokens(self) -> None:
        """Raise for promises that are none, and for what only the server of a language model has.
        Raises UsageError: there is one."""
        metrics = [promise.metric for promise in promises(self.slo)]
        if self.is_language_model:
            return
        for metric in metrics:
            if metric != "latency":
                raise UsageError(
                    f"--slo {metric} is for language models",
                    why=f"{redaction.address(self.target)} does not answer with tokens",
                    next="--slo latency=50ms@p99",
                )
        for name in ("model", "prompt", "output", "shared_prefix", "tokenizer"):
            if name in self.origins:
                raise UsageError(
                    f"--{name.replace('_', '-').replace('output', 'output-tokens')} is for language models",
                    why="their address is http://HOST:PORT/v1",
                    next="laptime load http://127.0.0.1:8000/v1 --rate 2,4,8",
                )
