"""Texts without secrets: command lines and addresses that are stored or shown, and reports of bugs.

Secrets are: values of headers; user, password, query and random parts of an address; what stands behind a
name that says so, as an option, a variable or in JSON; the keys of well-known services; and what variables of
the environment hold whose name says so."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

_HIDDEN = "..."
_SHORTEST = 4  # letters of a secret at least: shorter ones would be found in every text
_HEADERS = ("--header", "-H")
_NAME = (
    r"(?:[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|credentials?|authorization|cookie|signature"
    r"|(?:api|access|private)_?key)|(?:[\w.-]*[-_.])?(?:key|auth))"
)
_NAMES = re.compile(_NAME, re.IGNORECASE)
# The first group of these is what stays.
_NAMED = re.compile(  # but not `key=name`, which is code
    rf"""(?<![\w.-])(?!key\s*=\s*[a-z_])({_NAME}\\*["']?(?:\s*=\s*|\s*:\s+|:(?=\\*["']))(\\*["'])?)"""
    r"""(?(2)(?:(?!\2).)*|(?:(?:bearer|basic|token)\s+)?[^\s"',;&)}\]]+)""",
    re.IGNORECASE,
)
_MARKED = re.compile(
    r"\b((?i:bearer|basic)\s+)[\w.~+/=-]+|(?<![\w-])(?:(?:sk|xox[a-z]|glpat|nvapi)-(?=[\w-]*\d)|AKIA|AIza|eyJ"
    r"|(?:hf|gh[a-z]|gsk|r8)_)[\w-]*[a-zA-Z0-9]{16}[\w.-]*"
)
_VALUE = re.compile(r"([?&;][\w.%~-]+=)[^&;#\s'\"]+")
_PART = re.compile(  # of a path: behind such a name, or of 20 letters and digits in a row
    rf"(?<=/)((?i:{_NAME})/)[^/?#\s]+|(?<=[^/][/:])(?=[\w-]*\d)(?=[\w-]*[a-zA-Z])[\w-]*[a-zA-Z0-9]{{20}}[\w-]*"
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_USER = re.compile(r"(://)[^/?#\s]*@|(?<![^\s'\"=])[^\s/@'\"=:]*:[^\s/@]+@")
_APART = re.compile(r"[\s:=&?;@/#'\",]+")


def _hide(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: f"{match[1] or ''}{_HIDDEN}", text)


def address(text: str) -> str:
    """An address without what may be secret in it; other texts as they are."""
    shown = _hide(_VALUE, _USER.sub(r"\1", text))
    return _hide(_PART, shown.partition("#")[0]) if "://" in text else shown


def _without(value: str) -> str:
    """A text without what is told as a secret by its name or its form."""
    value = _hide(_MARKED, _hide(_NAMED, value))
    return _ADDRESS.sub(lambda match: address(match[0]), value)


def line(words: Sequence[str]) -> list[str]:
    """A command line without what may be secret."""
    kept, before = list[str](), ""
    for word in words:
        name, equals, value = word.partition("=")
        if before in _HEADERS or (name == "--header" and equals):
            kept.append(_header(word) if before in _HEADERS else f"{name}={_header(value)}")
        elif word.startswith("-H") and word != "-H":
            kept.append(f"-H{_header(word[2:])}")
        elif before.startswith("-") and _NAMES.fullmatch(before) and not word.startswith("-"):
            kept.append(_HIDDEN)
        elif equals and _NAMES.fullmatch(name):
            kept.append(f"{name}={_HIDDEN}")
        else:  # with spaces it is a command line in itself
            parts = line(word.split(" ")) if " " in word else [address(word)]
            kept.append(_without(" ".join(parts)))
        before = word
    return kept


def _header(text: str) -> str:
    name, colon, _ = text.partition(":")
    return text if text.startswith("@") else f"{name}: {_HIDDEN}" if colon else _HIDDEN


def text(value: str, words: Iterable[str] = ()) -> str:
    """A text in which what may be secret of a command line (`words`) and of the environment is left out."""
    found = {*_secrets([*words]), *(v for name, v in os.environ.items() if _NAMES.fullmatch(name))}
    for secret in sorted((each for each in found if len(each) >= _SHORTEST), key=len, reverse=True):
        value = value.replace(secret, _HIDDEN)
    return _without(value)


def _secrets(words: list[str]) -> Iterator[str]:
    """Yield the words that `line` leaves out, whole and in parts: a message may hold a part alone."""
    for word, shown in zip(words, line(words), strict=True):
        if word != shown:
            yield from {*_APART.split(word)} - {*_APART.split(shown)}
            if "://" not in word:
                yield from (word, word.partition(":")[2].strip(), word.partition("=")[2])
