"""`null:SPEC`: a program with planted behaviour, for tests and for measuring what laptime itself adds.

    SPEC      = part {"," part}
    part      = "noop"                   does nothing
              | "spin=" TIME             burns so much CPU time in each call
              | "sleep=" TIME            waits so long in each call
              | "exp=" TIME              waits in each call, exponentially distributed with this mean
              | "per_item=" TIME         burns so much more for each item of the batch
              | "first=" TIME            the first call burns so much more
              | "warmup=" N "x" TIME     each of the first N calls burns so much more
              | "jitter=" SHARE          calls differ by so much (standard deviation), alike in all runs
              | "load=" TIME             loading waits so long
              | "alloc=" SIZE            each call touches so much memory for each item, and frees it
              | "fits=" N                batches above N run out of memory
              | "flops=" NUMBER          floating point operations it claims for each item
              | "nan"                    returns not-a-number
              | fault                    see below
              | "at=" ("load" | N)       when the fault happens: on loading, or in call N (default 1)
    fault     = "raise" | "oom" | "crash" (SIGSEGV) | "kill" (SIGKILL) | "hang"
    TIME      = number ("ns" | "us" | "ms" | "s")       SIZE = number ("B" | "KiB" | "MiB" | "GiB")
    SHARE     = number "%"

`null:spin=1ms,per_item=0.2ms,warmup=20x1.5ms` is a model whose throughput grows with the batch.
Every batch size starts anew: its own first call, its own warm-up."""

import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from laptime.kit.errors import TargetError
from laptime.kit.text import closest
from laptime.targets import Program, Recipe

FORM = "null:SPEC"
FAULTS = ("raise", "oom", "crash", "kill", "hang")
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*([A-Za-z%]*)")
_JITTERS = 1009  # factors drawn in advance, so that drawing costs the calls nothing


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A parsed SPEC; times in seconds, sizes in bytes."""

    spin: float = 0.0
    sleep: float = 0.0
    exp: float = 0.0
    per_item: float = 0.0
    first: float = 0.0
    warmup: tuple[int, float] = (0, 0.0)
    jitter: float = 0.0
    load: float = 0.0
    alloc: int = 0
    fits: int | None = None
    flops: float | None = None
    nan: bool = False
    fault: str = ""
    at: int = 1  # call of the fault; 0 is loading


def matches(text: str) -> bool:
    return text.startswith("null:")


def resolve(text: str) -> Recipe:
    spec = parse_spec(text.partition(":")[2])

    @cache
    def load() -> None:
        time.sleep(spec.load)
        if spec.fault and spec.at == 0:
            _fail(spec.fault)

    def build(batch: int) -> Program:
        load()
        facts = {"flops_per_item": spec.flops} if spec.flops is not None else {}
        return Program(call=program(spec, batch), inputs=(), origin="known", facts=facts)

    return Recipe(
        target=text, kind="null", backend="null", build=build, per_batch=lambda: True, source="laptime"
    )


def names() -> list[str]:
    """One target of each behaviour that ends well."""
    return ["null:noop", "null:spin=1ms", "null:sleep=1ms", "null:nan"]


def parse_spec(text: str) -> Spec:
    """A SPEC read by the grammar above. Raises TargetError: it does not follow the grammar."""
    spec = Spec()
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name == "noop" and not equals:
            continue
        if name == "nan" and not equals:
            spec = replace(spec, nan=True)
        elif name in FAULTS and not equals:
            spec = replace(spec, fault=name)
        elif name in _READERS and equals:
            spec = replace(spec, **{name: _read(name, value, part)})
        else:
            words = ["noop", "nan", *FAULTS, *_READERS]
            near = closest(name, words)
            needs = f"{name} needs a value" if name in _READERS else f"the words are {', '.join(words)}"
            raise TargetError(
                f"null:{text} is not understood: {part!r}",
                why=f"{name} takes no value" if equals and name in words else needs,
                next=f"did you mean {near!r}?"
                if near and near != name
                else "for example null:spin=1ms,fits=64",
            )
    return spec


def program(spec: Spec, batch: int) -> Callable[[], float]:
    """A function that behaves as planted, for one batch size. It returns 0.0, or not-a-number."""
    steady = spec.spin + spec.per_item * batch
    warm_calls, warm_extra = spec.warmup
    fault_at = spec.at if spec.fault else -1
    output = float("nan") if spec.nan else 0.0
    drawn = random.Random(f"{spec.jitter} {batch}")  # noqa: S311 planted noise, no secret
    factors = [max(0.0, drawn.gauss(1.0, spec.jitter)) for _ in range(_JITTERS if spec.jitter else 1)]
    calls = 0

    def call() -> float:
        nonlocal calls
        calls += 1
        if calls == fault_at:
            _fail(spec.fault)
        if spec.fits is not None and batch > spec.fits:
            _fail("oom")
        held = b"\1" * (spec.alloc * batch) if spec.alloc else None
        extra = (spec.first if calls == 1 else 0.0) + (warm_extra if calls <= warm_calls else 0.0)
        factor = factors[calls % len(factors)] if spec.jitter else 1.0
        if seconds := steady * factor + extra:
            # CPU time, not time on the wall: who is disturbed takes longer, as real work would.
            end = time.thread_time() + seconds
            while time.thread_time() < end:
                pass
        if spec.sleep:
            time.sleep(spec.sleep * factor)
        if spec.exp:
            _wait(drawn.expovariate(1 / spec.exp))
        del held
        return output

    return call


def _wait(seconds: float) -> None:
    """Wait for this time on the wall, to within some microseconds: a sleep alone ends late."""
    end = time.perf_counter() + seconds
    if seconds > 0.0005:
        time.sleep(seconds - 0.0003)
    while time.perf_counter() < end:
        pass


def _fail(fault: str) -> None:
    match fault:
        case "raise":
            raise RuntimeError("planted error")
        case "oom":
            bytearray(2**62)  # more than any machine has: fails at once and touches nothing
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            while True:
                time.sleep(3600)


def _quantity(value: str, *, units: dict[str, float]) -> float:
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] not in units:
        raise ValueError(f"expected a number and one of {', '.join(unit or 'nothing' for unit in units)}")
    return float(match[1]) * units[match[2]]


_time = partial(_quantity, units={"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0})


def _warmup(value: str) -> tuple[int, float]:
    calls, cross, extra = value.partition("x")
    if not cross or not calls.isdigit():
        raise ValueError("expected calls, an x and a time: 20x1.5ms")
    return int(calls), _time(extra)


def _at(value: str) -> int:
    if value == "load":
        return 0
    if not value.isdigit() or value == "0":
        raise ValueError("expected load or a call number from 1")
    return int(value)


def _fits(value: str) -> int:
    if not value.isdigit():
        raise ValueError("expected a batch size")
    return int(value)


_READERS: dict[str, Callable[[str], Any]] = {
    "spin": _time,
    "sleep": _time,
    "exp": _time,
    "per_item": _time,
    "first": _time,
    "warmup": _warmup,
    "jitter": partial(_quantity, units={"%": 0.01}),
    "load": _time,
    "alloc": lambda value: int(_quantity(value, units={"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30})),
    "fits": _fits,
    "flops": partial(_quantity, units={"": 1.0}),
    "at": _at,
}


def _read(name: str, value: str, part: str) -> Any:
    try:
        return _READERS[name](value)
    except ValueError as error:
        raise TargetError(
            f"null:... is not understood: {part.strip()!r}", why=str(error), next="for example null:spin=1ms"
        ) from error
