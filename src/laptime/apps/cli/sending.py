"""What requests carry, as it is typed: headers and bodies."""

from __future__ import annotations

from pathlib import Path

from laptime.kit.errors import UsageError


def read_header(text: str) -> tuple[str, str]:
    """`NAME: VALUE` as both.

    Raises:
        UsageError: it is none.
    """
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(sign in text for sign in "\r\n"):
        raise UsageError(
            "a header is a name, a colon and a value",
            why="what was given is not shown, since it may be secret",
            next="--header 'Authorization: Bearer ...'",
        )
    return name.strip(), value.strip()


def read_body(path: Path) -> list[str]:
    """The file as one body; of JSON lines (.jsonl) each is one.

    Raises:
        UsageError: it cannot be read.
    """
    from laptime.verbs.load import request  # not for `laptime --help`

    return request.read_body(path)
