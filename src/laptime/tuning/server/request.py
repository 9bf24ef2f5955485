"""The request of `laptime tune server`, and the command with choices in braces."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
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
from laptime.verbs.load.request import Headers, LoadRequest

PORT = "{port}"
LANGUAGE_MODEL = f"http://127.0.0.1:{PORT}/v1"  # where requests go unless the user says otherwise


@dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """The request of `laptime tune server`."""

    command: str  # the server's, with choices in braces, see below
    budget: Budget = 600.0
    # perhaps with `{port}`
    url: Annotated[str, Option("Address to send to.  [default: http://127.0.0.1:{port}/v1]", "URL")] = (
        LANGUAGE_MODEL
    )
    # at random (Poisson); 0: `concurrency` users, who wait for their answers
    rate: Annotated[float, Option("Requests per second.  [default: use --concurrency]", "R")] = 0.0
    concurrency: Annotated[
        int, Option("Users who wait for each answer.  [default: use --rate]", "N", least=1)
    ] = 0
    bodies: list[str] = field(default_factory=list)  # what is sent, from the file `body` if that is not ""
    body: Annotated[str, Option("File to send; .jsonl: one line for each request.", "FILE")] = ""
    headers: Headers = field(default_factory=list)
    prompt: Annotated[int, Option("Prompt length in tokens.", "N", least=1)] = 128
    # tokens of a language model's answer
    output: Annotated[int, Option("Answer length in tokens.", "N", flags="--output-tokens", least=1)] = 64
    # promises that the tuned server has to keep under this load
    slo: Annotated[
        str,
        Option("Limits to keep under load, comma-separated: latency, ttft, itl or tpot.", "ttft=300ms@p95"),
    ] = ""
    # throughput: answers (of a language model: output tokens) per second; latency: the mean of what the SLO
    # promises, of a whole answer if it says nothing or several things
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
    # until a server has to be ready
    timeout: Annotated[float, Option("Time limit for the server to start.", "TIME", read=seconds)] = 600.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    def complete(self) -> ServerRequest:
        """The request with what follows from what was asked: the goal from the load, bodies from the file.
        Raises UsageError: where the file is sent is not said, or it cannot be read."""
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
        return parse(self.command)

    @property
    def figure(self) -> str:
        """The figure of the goal: throughput, latency, ttft, itl or tpot."""
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
            **{name: getattr(self, name) for name in ("bodies", "headers", "prompt", "output", "slo")},
            seed=seed,
        )

    def at(self, port: int | str) -> str:
        """Say where requests go, with a port."""
        return self.url.replace(PORT, str(port))

    def check(self) -> None:
        """Refuse what cannot be done before a server is started.
        Raises UsageError: the command, the address or the load is impossible."""
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
        self.load(address).check()


# The server's command with choices in braces: `vllm serve M --port {port} --max-num-seqs {16,64,256}`.
#
# The first choice of each is what the user runs today. `{--flag,}` and `{,--flag}` have a flag or leave it
# out; leading `NAME={1,2}` sets a variable of the environment; a word that is a JSON object stays as it is.
# The command is split into words as a shell would, and no shell ever reads it.


EXAMPLE = "--server 'vllm serve M --port {port} --max-num-seqs {16,64,256}'"
_OPERATORS = "|&;<>()"
_EXPANSION = re.compile(r"\$[\w({]|`")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_MARK = "LAPTIME0PORT"  # stands for the port while words are quoted: braces would be
Value = str | int | float


@dataclass(frozen=True)
class Choice:
    """The choices of one pair of braces."""

    name: str  # of the flag or variable, without dashes
    texts: tuple[str, ...]  # as typed, the one of today first
    # the same as they are shown: numbers, `on` and `off` of a flag that may be left out
    values: tuple[Value, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether all values are numbers: effects along them have a knee."""
        return not any(isinstance(value, str) for value in self.values)

    def text(self, values: Mapping[str, Value]) -> str:
        """Return it as it is typed, with the value of its name."""
        return self.texts[self.values.index(values.get(self.name, self.values[0]))]


Word = tuple[str | Choice, ...]  # its parts in order


@dataclass(frozen=True)
class Template:
    """The command."""

    words: tuple[Word, ...]  # the program and its arguments; variables of the environment before them
    choices: tuple[Choice, ...]  # in order of the command

    @property
    def has_port(self) -> bool:
        """Whether the port is laptime's to choose."""
        return any(PORT in part for word in self.words for part in word if isinstance(part, str))

    def command(self, values: Mapping[str, Value], port: str) -> tuple[dict[str, str], list[str]]:
        """Variables of the environment and words of the command. values: by name of a choice; of others the
        one of today. port: in place of `{port}`."""
        words = [text.replace(PORT, port) for word in self.words for text in _texts(word, values)]
        count = next((index for index, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
        variables = dict(word.split("=", 1) for word in words[:count])
        return variables, words[count:]

    def line(self, values: Mapping[str, Value]) -> str:
        """The command line as it can be typed; `{port}` stays where the user left it open."""
        variables, words = self.command(values, _MARK)
        typed = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        return " ".join([*typed, shlex.join(words)]).replace(_MARK, PORT)


def _texts(word: Word, values: Mapping[str, Value]) -> list[str]:
    parts = [part if isinstance(part, str) else part.text(values) for part in word]
    if len(word) == 1 and isinstance(word[0], Choice) and (not parts[0] or parts[0].startswith("-")):
        return shlex.split(parts[0])  # no flag, a flag, or one with its value
    return ["".join(parts)]


def parse(text: str) -> Template:
    """The template that a text means.
    Raises UsageError: it is none, has nothing to choose from, or needs a shell."""
    choices: list[Choice] = []
    words: list[Word] = []
    for word in _split(text):
        words.append(tuple(_parts(word, words, choices)))
    if not choices:
        raise UsageError(
            "the server's command leaves nothing to choose",
            why="choices go in braces, today's value first; there are none",
            next=EXAMPLE,
        )
    return Template(tuple(words), tuple(choices))


def _split(text: str) -> list[str]:
    """Words of a command. Raises UsageError: a quote is open, or something is left to a shell."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError as error:
        raise UsageError("the server's command cannot be read", why=str(error), next=EXAMPLE) from None
    for word in words:
        found = word if set(word) <= set(_OPERATORS) else _EXPANSION.search(word)
        if found:
            sign = found if isinstance(found, str) else found.group()
            raise UsageError(
                f"the server's command has {sign!r}, which only a shell reads",
                why="laptime starts the program itself, so that it can end all of it",
                next="write the value itself, or put that part into a script: --server './serve.sh {16,64}'",
            )
    return [str(Path(word).expanduser()) if word.startswith("~/") else word for word in words]


def _parts(typed: str, before: list[Word], choices: list[Choice]) -> Iterator[str | Choice]:
    """The parts of one word; its choices are added to those before."""
    if _is_object(typed):
        yield typed
        return
    at = 0
    while (start := typed.find("{", at)) >= 0:
        end = _closing(typed, start)
        inside = typed[start + 1 : end]
        if inside == PORT[1:-1]:
            yield typed[at : end + 1]
        else:
            yield from filter(None, [typed[at:start]])
            choices.append(_choice(inside, typed[:start], before, choices))
            yield choices[-1]
        at = end + 1
    if "}" in typed[at:] and not _is_object(typed[at:]):
        raise _refuse_brace(typed)
    yield from filter(None, [typed[at:]])


def _is_object(text: str) -> bool:
    with suppress(ValueError):
        return isinstance(json.loads(text), dict)
    return False


def _closing(typed: str, start: int) -> int:
    """Return where the brace that opens at `start` closes."""
    depth = 0
    for at in range(start, len(typed)):
        depth += {"{": 1, "}": -1}.get(typed[at], 0)
        if not depth:
            return at
    raise _refuse_brace(typed)


def _refuse_brace(typed: str) -> UsageError:
    return UsageError(
        f"a brace of {typed!r} is unmatched",
        why="choices go between { and }, separated by commas",
        next=EXAMPLE,
    )


def _choice(inside: str, head: str, before: list[Word], choices: list[Choice]) -> Choice:
    texts = _by_commas(inside)
    if len(texts) < 2:
        raise UsageError(
            f"{{{inside}}} leaves nothing to choose",
            why="one value is not a choice; write today's value first, then others",
            next=f"{{{inside or 1},...}}, or {inside or 1} without braces",
        )
    values: list[Value] = [_number(text) if text else "off" for text in texts]
    if "" in texts and len(texts) == 2:
        values = ["on" if text else "off" for text in texts]
    if twice := [text for text, value in zip(texts, values, strict=True) if values.count(value) > 1]:
        raise UsageError(
            f"{{{inside}}} has {twice[0] or 'nothing'} twice",
            why="the choices must differ",
            next=f"leave one out: {EXAMPLE}",
        )
    name = _name(texts, head, before) or f"word{len(before)}"
    taken = [choice.name for choice in choices]
    names = (f"{name}{number}" if number > 1 else name for number in count(1))
    unique = next(name for name in names if name not in taken)
    return Choice(unique, tuple(texts), tuple(values))


def _by_commas(inside: str) -> list[str]:
    parts, depth = [""], 0
    for sign in inside:
        depth += {"{": 1, "}": -1, "[": 1, "]": -1}.get(sign, 0)
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _number(text: str) -> Value:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.lstrip("-")


def _name(texts: list[str], head: str, before: list[Word]) -> str:
    """Return the name of the flag that a choice belongs to; "" if none shows."""
    if head and "{" not in head:
        return head.rstrip("=:").lstrip("-")
    flags = (
        text for text in texts if text.startswith("-") and isinstance(_number(text), str)
    )  # -1 is a number
    flag = next((text.split()[0] for text in flags), "")
    if not flag and before and isinstance(before[-1][-1], str) and before[-1][-1].startswith("-"):
        flag = before[-1][-1]
    return flag.partition("=")[0].lstrip("-")
