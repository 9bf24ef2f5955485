"""Prompts for a language model, of so many tokens, as bodies of OpenAI's API."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from laptime.kit.clock import SystemClock
from laptime.kit.errors import Unavailable, UsageError, unknown
from laptime.loadgen.connection import Broken
from laptime.loadgen.endpoint import StreamClient, advice, fault, first, page
from laptime.loadgen.messages import Endpoint

COMMON = """the of and to in is you that it he was for on are as with his they at be this have from or one had
by word but not what all were we when your can said there use an each which she do how their if will up"""
WORDS = tuple(COMMON.split())  # short and common: each is one token of most vocabularies
_NOT_UNDERSTOOD, _NOT_THERE = (400, 422), (404, 405)  # a field of the body; the path
BODIES = 512  # different prompts; so many requests later the first comes again
Cut = Callable[[str, int], str]
"""The beginning of a text that has so many tokens, by a tokenizer of the user's own. What the server counts
stays the truth."""


class Prompts(Struct, frozen=True, kw_only=True):
    """The prompts and their sizes."""

    kind: str
    model: str = ""
    # prompt, output: tokens
    prompt: int = 128
    output: int = 64
    shared: int = 0  # of the prompt, the same in all
    words: int = 0  # of a prompt, if a word is not a token
    seed: int = 0
    tokenizer: str = ""  # a file that says what is one
    frame: int = 0  # tokens that the server adds to a prompt
    turns: int = 1  # of a conversation
    forced: bool = True  # the server is asked not to stop early (`ignore_eos`, which not every server knows)


def bodies(prompts: Prompts, count: int) -> list[str]:
    """So many bodies, at most `BODIES`; one seed gives the same ones."""
    return [_body(prompts, text) for text in texts(prompts, min(count, BODIES))]


def later(prompts: Prompts) -> list[str]:
    """Return the user's texts in later turns of a conversation; [] if there are none."""
    if prompts.turns == 1:
        return []
    return texts(structs.replace(prompts, shared=0, seed=prompts.seed + 1), BODIES)


def texts(prompts: Prompts, count: int) -> list[str]:
    """So many texts of the tokens that are asked for, as far as `words` or a tokenizer tells."""
    drawn = random.Random(prompts.seed)  # noqa: S311 - prompts, no secret
    if prompts.tokenizer:
        cut, tokens = cutter(Path(prompts.tokenizer)), max(1, prompts.prompt - prompts.frame)
        same = cut(" ".join(drawn.choices(WORDS, k=prompts.shared)), prompts.shared)
        return [cut(" ".join([same, *drawn.choices(WORDS, k=tokens)]).lstrip(), tokens) for _ in range(count)]
    words = prompts.words or prompts.prompt
    start = [drawn.choice(WORDS) for _ in range(min(words, prompts.shared * words // prompts.prompt))]
    return [" ".join([*start, *drawn.choices(WORDS, k=words - len(start))]) for _ in range(count)]


def _body(prompts: Prompts, text: str) -> str:
    asked = {"messages": [{"role": "user", "content": text}]} if prompts.kind == "chat" else {"prompt": text}
    forced = {"ignore_eos": True} if prompts.forced else {}
    body = {
        "model": prompts.model,
        **asked,
        "max_tokens": prompts.output,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **forced,
    }
    return msgspec.json.encode(body).decode()


def settle(base: str, endpoint: Endpoint, prompts: Prompts) -> tuple[Endpoint, Prompts]:
    """The endpoint and the prompts with what the server says: its model, its path, its count of tokens.
    base: the address up to and with `/v1`.
    Raises UsageError: it has no such model, or does not answer as the API says."""
    return asyncio.run(_settle(base, endpoint, prompts))


async def _settle(base: str, endpoint: Endpoint, prompts: Prompts) -> tuple[Endpoint, Prompts]:
    models = await _models(base, endpoint)
    if prompts.model and models and prompts.model not in models:
        raise unknown("model of this server", prompts.model, models, option="--model")
    prompts = structs.replace(prompts, model=prompts.model or (models[0] if models else ""))
    kinds = [prompts.kind] if prompts.kind else ["chat", "completions"]
    kinds = kinds[:1] if prompts.turns > 1 else kinds  # without a chat nobody says who said what
    faults = []
    for kind in kinds:
        for forced in (True, False):
            tried = structs.replace(prompts, kind=kind, forced=forced, output=2)
            path = "/chat/completions" if kind == "chat" else "/completions"
            asked = structs.replace(
                endpoint, url=base + path, method="POST", stream=kind, bodies=bodies(tried, 1)
            )
            client = StreamClient(asked, SystemClock.now)
            try:
                answer = await first(client)
            finally:
                client.close()
            if not answer.error:
                return asked, _fit(structs.replace(prompts, kind=kind, forced=forced), answer.usage)
            if answer.status not in _NOT_UNDERSTOOD:
                break
        faults.append((answer, asked.url))
        if answer.status in (0, *range(200, 300), *range(500, 600)):
            break  # it has this path, and what it answers is the user's to see
    # A path that is there says more than one that is not.
    answer, url = next((each for each in faults if each[0].status not in _NOT_THERE), faults[-1])
    why = f"{answer.error}: {answer.detail}"
    step = "a smaller --prompt" if "context" in why else advice(answer.error, why, f"{base}/models")
    raise UsageError(f"{url} did not stream an answer", why=why, next=step)


def _fit(prompts: Prompts, usage: Sequence[int]) -> Prompts:
    """Prompts whose tokens are nearest to what was asked for, by the server's own count of one."""
    if not (usage and usage[0]):
        return prompts
    if prompts.tokenizer:
        return structs.replace(prompts, frame=usage[0] - prompts.prompt)
    words = prompts.words or prompts.prompt
    return structs.replace(prompts, words=max(1, round(words * prompts.prompt / usage[0])))


async def _models(base: str, endpoint: Endpoint) -> list[str]:
    """Names of the server's models; [] if it does not say."""
    try:
        reply = await page(endpoint, urlsplit(base + "/models"), endpoint.timeout)
    except Broken as broken:
        step = advice(broken.kind, str(broken), base)
        raise Unavailable(f"{base} did not answer: {broken.kind}", why=str(broken), next=step) from None
    kind, detail = fault(reply)
    if kind in ("http 401", "http 403"):
        why = detail or "it gave no reason"
        raise UsageError(f"{base} refused: {kind}", why=why, next="--header 'Authorization: Bearer ...'")
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        return [] if kind else [str(model["id"]) for model in msgspec.json.decode(reply.body)["data"]]
    return []


def cutter(path: Path) -> Cut:
    """Return the cutter of a `tokenizer.json`, or of a folder that holds one.
    Raises Unavailable: the library is not installed. UsageError: the file is not a tokenizer."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable(
            "tokenizers is not installed", why="--tokenizer needs it", next="pip install tokenizers"
        ) from None
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return cut_by(Tokenizer.from_file(str(file)))
    except Exception as error:  # the library raises Exception itself
        raise UsageError(
            f"{path} is not a tokenizer", why=str(error), next="--tokenizer FOLDER   with a tokenizer.json"
        ) from None


def cut_by(tokenizer: Any) -> Cut:
    """Return a cutter from anything whose `encode` gives the place of each token in the text."""

    def cut(text: str, tokens: int) -> str:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        return text[: offsets[min(tokens, len(offsets)) - 1][1]] if tokens > 0 and offsets else ""

    return cut
