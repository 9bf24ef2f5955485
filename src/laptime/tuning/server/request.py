"""What `laptime tune server` can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal
from urllib.parse import urlsplit

from laptime.analysis.promises import promises
from laptime.kit import redaction, typed
from laptime.kit.errors import UsageError
from laptime.kit.options import Option
from laptime.kit.typed import is_loopback
from laptime.kit.units import seconds
from laptime.records.plan import Name, Origin, Save
from laptime.tuning.options import Budget, Certify, DryRun, Resume
from laptime.tuning.server.template import PORT, Template, parsed
from laptime.verbs.load.request import Headers, LoadRequest

LANGUAGE_MODEL = f"http://127.0.0.1:{PORT}/v1"
"""Where requests go unless the user says otherwise."""


@dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """What `laptime tune server` can be asked.

    Attributes:
        command: the server's, with choices in braces, see `template`.
        url: perhaps with `{port}`.
        rate: at random (Poisson); 0: `concurrency` users, who wait for their answers.
        bodies: what is sent, from the file `body` if that is not "".
        output: tokens of a language model's answer.
        slo: promises that the tuned server has to keep under this load.
        goal: throughput: answers (of a language model: output tokens) per second; latency: the mean of what
            the SLO promises, of a whole answer where it says nothing or several things.
        timeout: until a server has to be ready.
    """

    command: str
    budget: Budget = 600.0
    url: Annotated[str, Option("Address to send to.  [default: http://127.0.0.1:{port}/v1]", "URL")] = (
        LANGUAGE_MODEL
    )
    rate: Annotated[float, Option("Requests per second.  [default: use --concurrency]", "R")] = 0.0
    concurrency: Annotated[
        int, Option("Users who wait for each answer.  [default: use --rate]", "N", least=1)
    ] = 0
    bodies: list[str] = field(default_factory=list)
    body: Annotated[str, Option("File to send; .jsonl: one line for each request.", "FILE")] = ""
    headers: Headers = field(default_factory=list)
    prompt: Annotated[int, Option("Prompt length in tokens.", "N", least=1)] = 128
    output: Annotated[int, Option("Answer length in tokens.", "N", flags="--output-tokens", least=1)] = 64
    slo: Annotated[
        str,
        Option("Limits to keep under load, comma-separated: latency, ttft, itl or tpot.", "ttft=300ms@p95"),
    ] = ""
    goal: Annotated[
        Literal["throughput", "latency"],
        Option("What to improve.  [default: latency with --rate, else throughput]"),
    ] = "throughput"
    allow: Annotated[
        list[Literal["precision"]],
        Option("precision: answers may differ, but not in length.", repeatable=True),
    ] = field(default_factory=list)
    certify: Certify = False
    resume: Resume = False
    dry_run: DryRun = False
    timeout: Annotated[float, Option("Time limit for the server to start.", "TIME", read=seconds)] = 600.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    def completed(self) -> ServerRequest:
        """The request with what follows from what was asked: the goal from the load, bodies from the file.
        Raises UsageError: where the file is sent is not said, or it cannot be read.
        """
        if self.body and self.url == LANGUAGE_MODEL:
            raise UsageError(
                "--body needs the address that it is sent to",
                why="each server has paths of its own",
                next="--url http://127.0.0.1:{port}/predict",
            )
        goal = self.goal if "goal" in self.origins or not self.rate else "latency"
        return replace(self, goal=goal, bodies=typed.bodies(self.body) if self.body else self.bodies)

    @property
    def differs(self) -> bool:
        """Outputs may differ."""
        return "precision" in self.allow

    @property
    def template(self) -> Template:
        """The command. Raises UsageError: it is none."""
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
        Raises UsageError: the command, the address or the load is impossible.
        """
        template = self.template
        if not (self.rate or self.concurrency):
            raise UsageError(
                "no load was given",
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
                f"{redaction.address(self.url)} is not an address of this machine",
                why="the server is started here, again for every trial",
                next=f"--url {LANGUAGE_MODEL}",
            )
