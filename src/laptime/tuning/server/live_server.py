"""A server that laptime starts for a trial, waits for, and ends with all that it has started."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from laptime.kit.units import show
from laptime.process.program import Process, deferred_signals, ending, last_line, tail
from laptime.tuning.search.evaluator import TrialFailed

LOOK = 0.05
"""Seconds between two looks at a server that starts; later ones are up to LONGEST_LOOK apart."""
LONGEST_LOOK = 0.5
GRACE = 10.0
"""Seconds that a server has to end by itself, before its whole group is killed."""
LOG = 32_000
"""Bytes of what it has printed in which the reason of its end is looked for."""
_RAISED = re.compile(r"\b[A-Z]\w*(?:Error|Exception): .*\S")

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LiveServer:
    """Up from `with` on, gone after it.

    Args:
        words: the program and its arguments. variables: added to the environment.
        probe: address that answers once the server is ready. log: file for what it prints.
        timeout: seconds until it has to be ready.

    Attributes:
        probe: as given. seconds: from its start until it was ready.

    Raises:
        TrialFailed: it does not start, ends before it is ready, or is not ready in time.
    """

    def __init__(
        self, words: Sequence[str], variables: Mapping[str, str], probe: str, log: Path, timeout: float
    ) -> None:
        self._words, self._variables, self.probe = words, variables, probe
        self._log, self._timeout = log, timeout
        self._process: Process | None = None
        self.seconds = 0.0

    def __enter__(self) -> LiveServer:
        if answers(self.probe):
            raise TrialFailed("refused", f"something else answers at {self.probe} already: use {{port}}")
        with self._log.open("wb") as output, deferred_signals() as release:
            try:
                self._process = Process(
                    list(self._words),
                    marked=True,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._variables},
                )
                release()
                self._wait(self._process)
            except OSError as error:
                raise TrialFailed("refused", f"{self._words[0]}: {error.strerror or error}") from None
            except BaseException:
                self.end()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End it and all that it has started. Safe to call twice."""
        if self._process is not None:
            self._process.end(grace=GRACE, first=signal.SIGTERM)

    def died(self) -> str:
        """How it ended and its last words; "" while it lives."""
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return ""
        said = last_words(tail(self._log, LOG))
        return f"the server {ending(status)}" + (f": {said}" if said else "")

    def _wait(self, process: Process) -> None:
        look = LOOK
        while not answers(self.probe):
            if process.ends_within(look):
                raise TrialFailed("crashed", self.died())
            if process.seconds > self._timeout:
                said = last_words(tail(self._log, LOG))
                last = f"; its last words: {said}" if said else ""
                why = f"{self.probe} did not answer within {show(self._timeout, 's')}{last}"
                raise TrialFailed("hung", why)
            look = min(LONGEST_LOOK, 1.2 * look)
        if said := self.died():
            raise TrialFailed("crashed", f"{said}; something else answers at {self.probe}")
        self.seconds = process.seconds


def last_words(output: str) -> str:
    """The last line, with the first exception before it: engines that die end in one that only says so."""
    last = last_line(output)
    first = next((found.group() for line in output.splitlines() if (found := _RAISED.search(line))), "")
    return f"{last} (before it: {first})" if first and first not in last else last


def answers(address: str) -> bool:
    """Whether a server answers there, well or not; 5xx says that it is not ready yet."""
    try:
        with _opener.open(address, timeout=5) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except (OSError, ValueError):
        return False
    except Exception:  # http.client has exceptions of its own for what is no HTTP
        return False


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
