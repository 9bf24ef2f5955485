"""Texts without secrets: command lines and addresses that are stored or shown, and reports of bugs.

Secrets are: values of headers, user, password and query of an address, what stands behind an option
or a variable whose name says so, and such variables of the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import SplitResult, urlsplit, urlunsplit

_HIDDEN = "..."
_SHORTEST = 4
"""Letters of a secret at least: shorter ones would be found in every text."""
_HEADERS = ("--header", "-H")
_NAMES = re.compile(
    r"(^|[-_.])(token|secret|passw(or)?d|(api|access|private)[-_]?key|credentials?|authorization|auth|cookie)$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_SCHEME = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)


def address(text: str) -> str:
    """An address without user, password and the values of its query; other texts as they are."""
    if "://" not in text:
        return text
    try:
        url: SplitResult = urlsplit(text)
    except ValueError:
        return text.partition("://")[0] + f"://{_HIDDEN}"
    names = [part.partition("=")[0] for part in url.query.split("&") if part]
    query = "&".join(f"{name}={_HIDDEN}" for name in names)
    return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, query, ""))


def line(words: Sequence[str]) -> list[str]:
    """A command line without what may be secret."""
    kept, before = list[str](), ""
    for word in words:
        name, equals, value = word.partition("=")
        if before in _HEADERS or (name == "--header" and equals):
            kept.append(_header(word) if before in _HEADERS else f"{name}={_header(value)}")
        elif word.startswith("-H") and word != "-H":
            kept.append(f"-H{_header(word[2:])}")
        elif before.startswith("-") and _NAMES.search(before) and not word.startswith("-"):
            kept.append(_HIDDEN)
        elif equals and "://" not in name and _NAMES.search(name):
            kept.append(f"{name}={_HIDDEN}")
        else:
            kept.append(_ADDRESS.sub(lambda found: address(found[0]), word))
        before = word
    return kept


def _header(text: str) -> str:
    name, colon, _ = text.partition(":")
    return text if text.startswith("@") else f"{name}: {_HIDDEN}" if colon else _HIDDEN


def text(value: str, words: Iterable[str] = ()) -> str:
    """A text in which what may be secret of a command line (`words`) and of the environment is left out."""
    found = {*_secrets([*words]), *(v for name, v in os.environ.items() if _NAMES.search(name))}
    for secret in sorted((each for each in found if len(each) >= _SHORTEST), key=len, reverse=True):
        value = value.replace(secret, _HIDDEN)
    value = _SCHEME.sub(lambda match: f"{match[1]} {_HIDDEN}", value)
    return _ADDRESS.sub(lambda match: address(match[0]), value)


def _secrets(words: list[str]) -> Iterator[str]:
    """The words that `line` leaves out, whole and in parts: a message may hold one of them alone."""
    for word, shown in zip(words, line(words), strict=True):
        if word == shown:
            continue
        if "://" in word:
            for match in _ADDRESS.finditer(word):
                url = urlsplit(match[0])
                yield from (url.password or "", url.username or "")
                yield from (part.partition("=")[2] for part in url.query.split("&"))
        else:
            for value in (word, word.partition(":")[2], word.partition("=")[2]):
                yield value.strip()
                yield value.rpartition(" ")[2]  # `Bearer TOKEN`
