"""`ssh:HOST,HOST`: hosts by OpenSSH, without a password; `HOST/PATH/TO/PYTHON` names the Python."""

import re
import shlex

from laptime.kit.errors import UsageError
from laptime.launch.fleet import NODE, Machine

OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%+-]*")


def machines(text: str) -> list[Machine]:
    """The hosts. Raises UsageError: one cannot be the name of a host."""
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        host, slash, python = each.partition("/")
        if not _HOST.fullmatch(host):  # an option of ssh, or worse
            raise UsageError(f"{host!r} is not the name of a host", next="--on ssh:HOST,USER@HOST")
        there = shlex.join([slash + python or "python3", *NODE])  # a shell of theirs reads it
        found.append(Machine(host, ("ssh", *OPTIONS, host, there), host))
    return found
