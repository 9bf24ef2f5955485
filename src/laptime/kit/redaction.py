"""Texts without secrets: command lines and addresses that are stored or shown, and reports of bugs.

Secrets are: values of headers, user, password and query of an address, what stands behind an option
or a variable whose name says so, and such variables of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

_HIDDEN = "..."
_SHORTEST = 4  # letters of a secret at least: shorter ones would be found in every text
_HEADERS = ("--header", "-H")
_NAMES = re.compile(
    r"(^|[-_.])(token|secret|passw(or)?d|key|credentials?|authorization|auth|cookie|signature)$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_SCHEME = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_USER = re.compile(r"(://)[^/?#\s]*@|(?<![^\s'\"=])[^\s/@'\"=:]*:[^\s/@]+@")
_VALUE = re.compile(r"([?&;][\w.%~-]+=)[^&;#\s'\"]+")
_APART = re.compile(r"[\s:=&?;@/#'\",]+")


def address(text: str) -> str:
    """An address without user, password, fragment and the values of its query; other texts as they are."""
    shown = _VALUE.sub(rf"\1{_HIDDEN}", _USER.sub(r"\1", text))
    return shown.partition("#")[0] if "://" in text else shown


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
        elif equals and "://" not in name and " " not in name and _NAMES.search(name):
            kept.append(f"{name}={_HIDDEN}")
        elif " " in word:  # a command line in itself
            kept.append(" ".join(line(word.split(" "))))
        else:
            kept.append(address(word))
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
    """Yield the words that `line` leaves out, whole and in parts: a message may hold a part alone."""
    for word, shown in zip(words, line(words), strict=True):
        if word != shown:
            yield from {*_APART.split(word)} - {*_APART.split(shown)}
            if "://" not in word:
                yield from (word, word.partition(":")[2].strip(), word.partition("=")[2])
