"""A ruler: known work on every CPU between timed calls, which shows speeds that a guest cannot read.

A virtual machine sees neither the clock of its CPUs nor who uses the other hyperthread of their cores. Both
change within milliseconds: on a quiet two-core guest the same work took 1.5 times as long in 5 % of all
readings, and so did the model beside it. The work touches no memory to speak of, so that the measured program
changes neither its caches nor its page tables."""

import hashlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from laptime.kit.clock import Clock, SystemClock
from laptime.probes import clocks, machine, others
from laptime.probes.cpu import cpu
from laptime.records.series import read_metrics

METRICS = (RULER,) = read_metrics("""
disturbance/ruler s lower known work on the slowest CPU
    Time of a fixed piece of arithmetic on the CPU that was slowest at it just before or just after the
    sample, the best of three tries; the usual time if threads or children of the program slow it.
    Lies when: The speed changed and changed back between two readings; memory bandwidth and shared caches
    are not in it.
""")
ROUNDS = 100  # of PBKDF2 with SHA-256: about 25 us, arithmetic in registers without the interpreter's lock
TRIES = 3
SLOW = 1.05  # against the usual reading while the program is idle: only then may the program be the cause
OWN_CPUS = 0.5  # CPUs that other threads of the program use during a reading, from which they may slow it
LAST = 99  # readings of either kind that tell what is usual
MOST = 32  # CPUs that are read; on larger machines every second, third ... one.
_now, _cpu_time, _thread_time = time.perf_counter, time.process_time, time.thread_time
"""As in `scheduler`: what the program puts in the place of these clocks later does not count."""


def open_ruler(device: str, clock: Clock, root: str = "/") -> "Ruler | None":
    """A ruler for programs on the CPU of a virtual machine.

    None on a scripted machine, if the clock of the CPUs can be read, where threads cannot be bound to
    CPUs, or where OpenSSL does not offer the work. Bare metal lowers its clock while the program sleeps,
    which is the program's own: no ruler there."""
    if clock is not SystemClock or device != "cpu" or not hasattr(os, "sched_setaffinity"):
        return None
    if clocks.reader(device, root) or not machine.hypervisor(cpu(root), root):
        return None
    try:
        return Ruler()
    except (OSError, ValueError):  # a CPU was taken away; no SHA-256 in this OpenSSL
        return None


class Ruler:
    """One thread a CPU, asleep but for a reading. `read` belongs between timed windows. threads: ids of its
    threads, whose waiting for a CPU is not the program's. cost: seconds of one reading, the median of nine
    when this object was made."""

    def __init__(self) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        _work()
        self._process = os.getpid()
        self._idle: deque[float] = deque(maxlen=LAST)
        self._busy: deque[float] = deque(maxlen=LAST)
        self._gauges = [_Gauge(each) for each in cpus[:: -(-len(cpus) // MOST)]]
        self.threads = frozenset(str(gauge.thread_id) for gauge in self._gauges)
        spans = []
        for _ in range(9):
            began = _now()
            self.read()
            spans.append(_now() - began)
        self.cost = sorted(spans)[4]

    def read(self) -> float:
        """Seconds of the known work on the slowest CPU; the usual ones if the program may have slowed it.

        One CPU is asked after the other: two hyperthreads of one core would slow each other. Threads of the
        program that run meanwhile (pools spin for a while) do no harm as long as readings beside them are
        usually as fast as others."""
        if os.getpid() != self._process:  # a fork of the program's, which has none of the threads
            return _usual(self._idle)
        began, used, spent = _now(), _cpu_time(), _thread_time()
        seconds = max([gauge.read() for gauge in self._gauges])
        ours = sum(gauge.spent for gauge in self._gauges) + _thread_time() - spent
        own = (_cpu_time() - used - ours) / (_now() - began)
        alike = self._busy if own > OWN_CPUS else self._idle
        alike.append(seconds)
        usual = _usual(self._idle)
        if seconds <= SLOW * usual:
            return seconds
        is_own = others.children_run() or (alike is self._busy and _usual(alike) > SLOW * usual)
        return usual if is_own else seconds

    def close(self) -> None:
        for gauge in self._gauges:
            gauge.close()


class _Gauge:
    """The thread of one CPU. thread_id: the kernel's. spent: CPU seconds that the thread used in the last
    reading."""

    def __init__(self, cpu: int) -> None:
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._closing = False
        self._seconds = self.spent = 0.0
        thread = threading.Thread(target=self._measure, name=f"laptime-ruler-{cpu}", daemon=True)
        thread.start()
        self.thread_id = thread.native_id
        assert self.thread_id is not None
        os.sched_setaffinity(self.thread_id, {cpu})

    def read(self) -> float:
        self._go.release()
        self._done.acquire()
        return self._seconds

    def close(self) -> None:
        self._closing = True
        self._go.release()

    def _measure(self) -> None:
        while self._go.acquire() and not self._closing:
            spent = _thread_time()
            self._seconds = min([_work() for _ in range(TRIES)])
            self.spent = _thread_time() - spent
            self._done.release()


def _usual(readings: Sequence[float]) -> float:
    """Their lower quartile; a reading is never too fast. Infinite if there is none."""
    return sorted(readings)[len(readings) // 4] if readings else math.inf


def _work() -> float:
    began = _now()
    hashlib.pbkdf2_hmac("sha256", b"known work", b"on every CPU....", ROUNDS)
    return _now() - began


# The small programs that `laptime doctor` measures against themselves. Neither is tuned to look steady: all
# threads work, and each call allocates memory.


def network() -> Any:
    """A small convolutional network and its input, for torch on any device."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    channels = 3
    for width, stride in ((32, 2), (64, 2), (128, 2), (128, 1)):
        layers += [nn.Conv2d(channels, width, 3, stride=stride, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    return model.eval(), torch.randn(1, 3, 160, 160)


def products() -> Callable[[], Any]:
    """Matrix products and activations, for machines without torch."""
    import numpy as np

    drawn = np.random.default_rng(0)
    x, a, b = (drawn.standard_normal((256, 256), dtype=np.float32) for _ in range(3))

    def call() -> Any:
        y = x
        for _ in range(4):
            y = np.maximum(y @ a, 0.0) @ b * np.float32(1e-3)
        return y

    return call


def copies() -> Callable[[], Any]:
    """Copies of an array that no cache holds: what memory gives."""
    import numpy as np

    source = np.zeros(1 << 24, dtype=np.float32)
    target = np.empty_like(source)

    return lambda: np.copyto(target, source)
