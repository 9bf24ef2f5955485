"""What `laptime load` can be asked."""

from __future__ import annotations

import ipaddress
import math
import sys
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from msgspec import Struct

from laptime.kit.errors import UsageError, unknown
from laptime.loadgen.arrivals import LAWS
from laptime.loadgen.promise import promises
from laptime.records.plan import Origin

BUDGET = 240.0
"""Seconds of sending of a search for the peak."""
DURATION = 10.0
"""Seconds of a level where nobody says how long."""


class LoadRequest(Struct, frozen=True, kw_only=True):
    """Options, as typed.

    Attributes:
        target: an address, or whatever `laptime bench` takes.
        rates: requests per second, one level each. concurrency: users, one level each; with rates, the most
            requests that may be under way at once.
        arrivals: law of the gaps; trace: a file of times instead.
        duration: seconds of one level; requests: so many instead; auto: until the level has told enough, at
            most `budget` seconds.
        body: text that is sent, used in turn where there are several. headers: as sent, secrets among them.
        model, prompt, output, shared_prefix: of a language model: its name, and tokens. tokenizer: a file of
            what a token is. turns: requests of a conversation.
        scenario: of MLPerf: SingleStream, Server or Offline.
        slo: promises, `latency=50ms@p99`; find_peak: look for the highest rate that keeps them, in so many
            seconds of sending (budget). usd_per_hour: of the machine that serves.
        senders: processes; None: as many as are needed.
        remote: an address that is not this machine was confirmed.
    """

    target: str
    rates: list[float] = []
    concurrency: list[int] = []
    arrivals: str = "poisson"
    shape: float = 0.5
    trace: Path | None = None
    duration: float | None = None
    auto: bool = False
    requests: int | None = None
    seed: int = 0
    method: str = ""
    bodies: list[str] = []
    headers: list[tuple[str, str]] = []
    model: str = ""
    prompt: int = 128
    output: int = 64
    shared_prefix: int = 0
    tokenizer: Path | None = None
    turns: int = 1
    scenario: str = ""
    slo: str = ""
    find_peak: bool = False
    budget: float = BUDGET
    usd_per_hour: float | None = None
    timeout: float = 60.0
    verify: bool = True
    senders: int | None = None
    remote: bool = False
    name: str = ""
    save: bool = True
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

        Raises:
            UsageError: a number is impossible, or options do not go together.
        """
        self._check_numbers()
        if any(users < 1 for users in self.concurrency):
            raise UsageError("--concurrency 0 is impossible", why="nobody would send", next="--concurrency 1")
        if self.arrivals not in LAWS:
            raise unknown(
                "law of arrivals", self.arrivals, LAWS, option="--arrivals", example="--arrivals poisson"
            )
        self._check_levels()
        self._check_tokens()
        if self.is_endpoint:
            _check_address(self.target, confirmed=self.remote)
        elif self.bodies or self.headers:
            raise UsageError(
                "--body and --header are for an address",
                why=f"{self.target} is called with inputs of its own",
                next="leave them out",
            )

    def _check_levels(self) -> None:
        """Raise where it is not said how much load, or said twice."""
        if self.find_peak and not self.slo:
            raise UsageError(
                "--find-peak needs a promise",
                why="the peak is the highest rate that keeps it",
                next="--find-peak --slo latency=50ms@p99",
            )
        if not (self.rates or self.concurrency or self.trace or self.find_peak or self.scenario):
            raise UsageError(
                "how much load is not said",
                why="a level is a rate (requests per second) or a number of users",
                next=f"laptime load {shown(self.target)} --rate 2,4,8",
            )
        if self.turns > 1 and not self.is_chat:
            raise UsageError(
                "--turns is for the chat of a language model's server",
                why="each turn of a conversation holds what was said before",
                next="http://HOST:PORT/v1, without --body",
            )
        if self.rates and len(self.concurrency) > 1:
            raise UsageError(
                "--rate and several values of --concurrency do not go together",
                why="beside a rate, --concurrency is the most requests that may be under way",
                next="--concurrency 1,8,32 without --rate",
            )
        if self.trace is not None and self.rates:
            raise UsageError(
                "--trace and --rate do not go together",
                why="the file says when requests are due",
                next="leave --rate out",
            )
        if self.auto and (self.requests or self.trace or self.find_peak or self.scenario == "Offline"):
            raise UsageError(
                "--duration auto does not go with --requests, --trace, --find-peak and --scenario Offline",
                why="each says itself how long a level is",
                next="leave one of them out",
            )

    def _check_numbers(self) -> None:
        numbers = (
            *(("--rate", rate, "8") for rate in self.rates),
            ("--shape", self.shape, "0.5"),
            ("--usd-per-hour", self.usd_per_hour, "4"),
        )
        for option, value, example in numbers:
            if value is not None and not 0 < value < math.inf:  # NaN is neither
                raise UsageError(
                    f"{option} {value:g} is impossible",
                    why="it must be a number above zero",
                    next=f"{option} {example}",
                )

    def _check_tokens(self) -> None:
        """Raise for promises that are none, and for what only the server of a language model has.

        Raises:
            UsageError: there is one.
        """
        metrics = [promise.metric for promise in promises(self.slo)]
        if self.is_language_model:
            return
        for metric in metrics:
            if metric != "latency":
                raise UsageError(
                    f"--slo {metric} is for language models",
                    why=f"{shown(self.target)} answers with no tokens that could be timed",
                    next="--slo latency=50ms@p99",
                )
        for name in ("model", "prompt", "output", "shared_prefix", "tokenizer"):
            if name in self.origins:
                raise UsageError(
                    f"--{name.replace('_', '-')} is for language models",
                    why="they are addressed as http://HOST:PORT/v1",
                    next="laptime load http://127.0.0.1:8000/v1 --rate 2,4,8",
                )


def _check_address(address: str, *, confirmed: bool) -> None:
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise UsageError(
            f"{shown(address)} is no address", why=str(error), next="http://127.0.0.1:8000"
        ) from None
    if not host:
        raise UsageError(
            f"{shown(address)} is no address", why="it names no host", next="http://127.0.0.1:8000"
        )
    if not confirmed and not is_loopback(host):
        raise UsageError(
            f"{host} is not this machine",
            why="load on a server that is not yours is an attack, and may cost money",
            next="--yes-remote   if it is yours",
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name alone: nothing is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown(target: str) -> str:
    """A target without what may be secret: user, password, and the values of a query."""
    if "://" not in target:
        return target
    try:
        url: SplitResult = urlsplit(target)
    except ValueError:
        return target.partition("://")[0] + "://..."
    query = "&".join(f"{part.partition('=')[0]}=..." for part in url.query.split("&")) if url.query else ""
    return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, query, ""))


def typed_command(target: str) -> list[str]:
    """The command line without what may be secret: values of headers, and of the address `target`."""
    words, kept = sys.argv[1:], ["laptime"]
    hide = False
    for word in words:
        if hide or (word.startswith(("--header=", "-H")) and word != "-H"):
            kept.append(f"{word.partition(':')[0]}: ...")
        else:
            kept.append(shown(word) if word == target else word)
        hide = word in ("--header", "-H")
    return kept


def read_body(path: Path) -> list[str]:
    """The file as one body; of JSON lines (.jsonl) each is one.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be sent", why=getattr(error, "strerror", None) or str(error), next="--body x.json"
        ) from None
    if path.suffix == ".jsonl":
        return [line for line in text.splitlines() if line.strip()]
    return [text]
