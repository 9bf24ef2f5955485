"""Lists, named values and hosts as people type them: `1,8`, `hint=latency,throughput`. Amounts: `units`."""

import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from laptime.kit import registry
from laptime.kit.errors import UsageError, not_a, unknown
from laptime.kit.text import closest

Number = TypeVar("Number", int, float)
DTYPES = {"fp32": "float32", "float": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16"}
"""Short names that are spelled out."""


def words(text: str) -> list[str]:
    """`a,b` as a list, each once."""
    return list(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def names(texts: Sequence[str]) -> list[str]:
    """Names of extensions from several such lists, each once, `-` as `_`."""
    return list(dict.fromkeys(word.replace("-", "_") for text in texts for word in words(text)))


def dtypes(text: str) -> list[str]:
    """Names of dtypes; short ones are spelled out."""
    return list(dict.fromkeys(DTYPES.get(word.lower(), word) for word in words(text)))


def integers(text: str) -> list[int]:
    """`1,8` as numbers, each once. Raises UsageError: not whole numbers."""
    return _numbers(text, int, "list of whole numbers", "1,8, say")


def amount(text: str) -> float:
    """`1281167` or `1.28M`: how many samples a training set has. Raises UsageError: not a number."""
    factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower(), 1.0)
    try:
        return float(text if factor == 1.0 else text[:-1]) * factor
    except ValueError:
        why = "it takes a number, which may end in k or M"
        raise UsageError(f"{text!r} is not a number of samples", why=why, next="1.28M") from None


def rates(text: str) -> list[float]:
    """`2,4,8` requests per second. Raises UsageError: not numbers."""
    return _numbers(text, float, "list of rates", "--rate 2,4,8")


def _numbers(text: str, kind: Callable[[str], Number], called: str, example: str) -> list[Number]:
    try:
        numbers = list(dict.fromkeys(kind(word) for word in words(text)))
    except ValueError as error:
        raise not_a(f"a {called}", text, "numbers with commas between them", example) from error
    if not numbers:
        raise UsageError("the list is empty", why="it takes at least one number", next=example)
    return numbers


def batches(text: str) -> list[int] | str:
    """Batch sizes, or the name of a search for them. Raises UsageError: neither."""
    if text in ("auto", "auto:linear"):
        return text
    if text[:1].isalpha():
        near = closest(text, ["auto", "auto:linear"])
        raise UsageError(
            f"there is no search called {text!r}",
            why="known: auto (doubling, then bisection), auto:linear (one after another)",
            next=f"did you mean --batch {near}?" if near else "--batch 1,8   or   --batch auto",
        )
    return integers(text)


def backends(text: str) -> list[str]:
    """Names of backends that there are. Raises UsageError: there is none of this name."""
    available = registry.names("backends")
    named = words(text)
    for name in named or [text]:
        if name not in available:
            raise unknown("backend", name, available, example="laptime doctor")
    return named


def interpreters(texts: Sequence[str]) -> dict[str, str]:
    """`tensorflow=.venv-tf/bin/python`: an interpreter for each backend named.
    Raises UsageError: not of this form, or no such backend."""
    paths = _parse_pairs(texts, "--python tensorflow=.venv-tf/bin/python")
    return {name: python for named, python in paths.items() for name in backends(named)}


def settings(texts: Sequence[str]) -> dict[str, list[str]]:
    """`hint=latency,throughput`: the values of each setting. Raises UsageError: not of this form."""
    return {name: words(value) for name, value in _parse_pairs(texts, "--option hint=throughput").items()}


def shapes(texts: Sequence[str]) -> dict[str, list[int]]:
    """`image=3x224x224` and `tokens=128`: sizes by name.
    Raises UsageError: not of this form, or a size is not a number above zero."""
    by_name = {}
    for name, value in _parse_pairs(texts, "--shape image=3x224x224").items():
        sizes = value.lower().replace(",", "x").split("x")
        if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
            takes = "numbers above zero with x between them"
            raise not_a("a shape", value, takes, "for example 3x224x224")
        by_name[name] = [int(size) for size in sizes]
    return by_name


def _parse_pairs(texts: Sequence[str], example: str) -> dict[str, str]:
    """`NAME=VALUE`, each, by name. Raises UsageError: one is not of this form."""
    values = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            what = f"{text!r} is not a name with a value"
            raise UsageError(what, why="it is written NAME=VALUE", next=example)
        values[name] = value
    return values


def headers(texts: Sequence[str]) -> list[tuple[str, str]]:
    """`NAME: VALUE`, each as both; `@FILE` has one a line.
    Raises UsageError: one is not of this form, or the file cannot be read."""
    found = []
    for text in [line for each in texts for line in (_lines(each[1:]) if each[:1] == "@" else [each])]:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or any(sign in text for sign in "\r\n"):
            what, next = "a header is a name, a colon and a value", "--header 'Authorization: Bearer ...'"
            raise UsageError(what, why="the text is not shown, because it may be secret", next=next)
        found.append((name.strip(), value.strip()))
    return found


def bodies(name: str) -> list[str]:
    """The content of the file as one body; of JSON lines (.jsonl) each is one.
    Raises UsageError: it cannot be read, or has no line."""
    lines = [_read(name, "--body x.json")]
    if name.endswith(".jsonl") and not (lines := [line for line in lines[0].split("\n") if line.strip()]):
        raise UsageError(f"{name} cannot be sent", why="it holds no line", next="--body x.jsonl")
    return lines


def _lines(name: str) -> list[str]:
    """The lines of a file of headers; `#` begins a comment."""
    lines = _read(name, "--header @headers.txt").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def _read(name: str, example: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be sent", why=why, next=example) from None


def run_name(name: str) -> str:
    """A name that a stored run may have. Raises UsageError: the name already means a run."""
    is_file = "/" in name or name.endswith((".json", ".json.gz", ".jsonl"))
    if is_file or name == "last" or name.startswith("last~"):
        why = "`last` and file names already mean a run"
        raise UsageError(f"a run cannot be called {name!r}", why=why, next="--name baseline")
    return name


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name alone: nothing is looked up."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
