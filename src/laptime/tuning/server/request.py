"""What `laptime tune --server` can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from laptime.analysis.promises import promises
from laptime.kit.errors import UsageError
from laptime.records.plan import Origin
from laptime.tuning.server.template import PORT, Template, parsed
from laptime.verbs.load.request import LoadRequest, is_loopback, shown

LANGUAGE_MODEL = f"http://127.0.0.1:{PORT}/v1"
"""Where requests go unless the user says otherwise."""


@dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """The options of `laptime tune --server`.

    Attributes:
        command: the server's, with choices in braces, see `template`.
        url: where requests go, perhaps with `{port}`.
        rate: requests per second, at random (Poisson); 0: `concurrency` users, who wait for their answers.
        bodies, headers: of the requests. body: file that the bodies are from, "" for none.
        prompt, output: tokens of a language model's.
        slo: promises, `ttft=300ms@p95`, that the tuned server has to keep under this load; "": none.
        goal: throughput: answers (of a language model: output tokens) per second; latency: the mean of what
            the SLO promises, of a whole answer where it says nothing or several things.
        differs: outputs may differ, as long as they are as long: `--allow precision`.
        budget: seconds of the session at most. certify: error rates that hold for the whole session.
        resume: go on with the last session of the same command and load.
        dry_run: list what would be tried, and how long that takes.
        timeout: seconds until a server has to be ready.
    """

    command: str
    url: str = LANGUAGE_MODEL
    rate: float = 0.0
    concurrency: int = 0
    bodies: list[str] = field(default_factory=list)
    body: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    prompt: int = 128
    output: int = 64
    slo: str = ""
    goal: Literal["latency", "throughput"] = "throughput"
    differs: bool = False
    budget: float = 600.0
    certify: bool = False
    resume: bool = False
    dry_run: bool = False
    timeout: float = 600.0
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def template(self) -> Template:
        """The command.

        Raises:
            UsageError: it is none.
        """
        return parsed(self.command)

    @property
    def figure(self) -> str:
        """What the goal looks at: throughput, latency, ttft, itl or tpot."""
        named = {promise.metric for promise in promises(self.slo)}
        if self.goal == "throughput":
            return "throughput"
        return named.pop() if len(named) == 1 else "latency"

    def load(self, url: str, seed: int = 0) -> LoadRequest:
        """The load on a server that is up."""
        return LoadRequest(
            target=url,
            rates=[self.rate] if self.rate else [],
            concurrency=[self.concurrency] if self.concurrency else [],
            bodies=self.bodies,
            headers=self.headers,
            prompt=self.prompt,
            output=self.output,
            slo=self.slo,
            seed=seed,
        )

    def at(self, port: int | str) -> str:
        """Where requests go, with a port."""
        return self.url.replace(PORT, str(port))

    def check(self) -> None:
        """Refuse what cannot be done before a server is started.

        Raises:
            UsageError: the command, the address or the load is impossible.
        """
        template = self.template
        if not (self.rate or self.concurrency):
            raise UsageError(
                "how much load is not said",
                why="flags that help at one load hurt at another",
                next="--concurrency 16   or   --rate 4 --slo ttft=300ms@p95",
            )
        if self.rate and self.goal == "throughput":
            raise UsageError(
                "--goal throughput and --rate contradict each other",
                why="at a rate as many answers come as requests were sent",
                next="--goal throughput --concurrency 16   or   --goal latency --rate 4",
            )
        self._check_address(template)
        self.load(self.at(1)).check()

    def _check_address(self, template: Template) -> None:
        if (PORT in self.url) != template.has_port:
            where, other = ("--url", "--server") if PORT in self.url else ("--server", "--url")
            raise UsageError(
                f"{{port}} stands in {where} and not in {other}",
                why="laptime chooses a free port for every start, and both have to know it",
                next=f"--server '... --port {PORT}' --url {LANGUAGE_MODEL}   or a number in both",
            )
        address = self.at(1)
        host = urlsplit(address).hostname if address.startswith(("http://", "https://")) else ""
        if not host or not is_loopback(host):
            raise UsageError(
                f"{shown(self.url)} is not an address of this machine",
                why="the server is started here, again for every trial",
                next=f"--url {LANGUAGE_MODEL}",
            )
