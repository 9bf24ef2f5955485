"""How to get the packages of an extra: one place, since it depends on the source of laptime.

No package index has laptime, so `pip install 'laptime[torch]'` finds nothing: the packages themselves are
named, as the installed laptime lists them."""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

_REQUIREMENT = re.compile(r"""(?P<what>[^;]+?)\s*;.*\bextra == ['"](?P<extra>[^'"]+)['"]""")
_OWN = re.compile(r"laptime\[(?P<extras>[^\]]+)\]")


def install(*extras: str) -> str:
    """The command that installs the packages of these extras; an extra that is unknown is a package."""
    words = dict.fromkeys(package for extra in extras for package in _packages(extra))
    return f"pip install {shlex.join(words)}"


def _packages(extra: str) -> Iterator[str]:
    lines: list[str] = []
    with suppress(metadata.PackageNotFoundError):  # laptime's folder is on the path, and was never installed
        lines = metadata.requires("laptime") or []
    matches = filter(None, map(_REQUIREMENT.match, lines))
    found = [match["what"] for match in matches if match["extra"] == extra]
    for package in found or [extra]:
        if own := _OWN.match(package):
            for other in own["extras"].split(","):
                yield from _packages(other)
        else:
            yield package
