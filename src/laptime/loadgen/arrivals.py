"""When requests are due: seconds from the beginning, in order, drawn before the first is sent.

One seed gives one schedule of a rate, whatever the server does: a request is due although the one before is
late."""

import math
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from laptime.kit.errors import UsageError

Times = NDArray[np.float64]
LAWS = ("constant", "poisson", "gamma")
MOST = 2_000_000  # requests of one schedule: more than one machine sends in any time that a person waits


def schedule(
    law: str, rate: float, *, seconds: float, seed: int, requests: int | None = None, shape: float = 0.5
) -> Times:
    """Due times of one level, in seconds: as many as the rate says, and each rate draws its own gaps.

    Random gaps are drawn once and scaled so that `rate` is what is sent: the requests fill `count / rate`
    seconds. Of poisson arrivals their number is given, and nothing else of their law changes.

    law: of the gaps between requests: constant; poisson (exponential gaps); gamma (burstier for a `shape`
    below 1, whose square root is one over the gaps' coefficient of variation). rate: requests per second, on
    average. seconds: length of the window; `requests`: so many instead, however long they take.
    Raises UsageError: the rate is impossible, or there are too many requests."""
    if not 0 < rate < math.inf:
        why = "it must be a number above zero"
        raise UsageError(f"a rate of {rate:g} requests/s is impossible", why=why, next="--rate 8")
    expected = requests or rate * seconds
    if expected > MOST:
        raise UsageError(
            f"{expected:,.0f} requests are more than one machine can send",
            why=f"a schedule has at most {MOST:,} requests",
            next=f"--rate {MOST / max(seconds, 1) / 10:.0f}, or a shorter --duration",
        )
    count = requests or max(1, math.floor(expected + 1e-9))
    if law == "constant":
        return np.arange(count) / rate
    random = np.random.default_rng([seed, round(rate * 1e6)])
    n = count + 1
    gaps = random.exponential(size=n) if law == "poisson" else random.gamma(shape, 1 / shape, size=n)
    due: Times = np.cumsum(gaps)
    due *= count / rate / due[count]
    return due[:count]


def from_trace(path: Path) -> Times:
    """Due times as in a file: a number a line (seconds), or JSON lines with `timestamp` in milliseconds.

    The latter is the form of the Mooncake traces. The first request is due at once.

    Raises UsageError: the file cannot be read, or holds no rising times."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        times = np.asarray([_time(line) for line in lines if line and not line.startswith("#")])
    except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise _refuse(path, str(error) or type(error).__name__) from None
    if not len(times) or not np.isfinite(times).all():
        raise _refuse(path, "it holds no time")
    if (np.diff(times) < 0).any():
        raise _refuse(path, f"line {int(np.argmax(np.diff(times) < 0)) + 2} goes back in time")
    first: Times = times - times[0]
    return first


def _time(line: str) -> float:
    if line.startswith("{"):
        return float(msgspec.json.decode(line)["timestamp"]) / 1e3
    return float(line.split(",")[0])


def _refuse(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a trace of arrivals",
        why=why,
        next='one time in seconds a line, or {"timestamp": MILLISECONDS} a line',
    )
