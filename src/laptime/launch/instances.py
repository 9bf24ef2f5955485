"""Several instances of one program at the same time, each in a process of its own on CPUs of its own.

To the bench they are one worker: a block is carried out by all of them at once, and its samples are those
of all. Each instance has CPUs of its own, one thread of every core first. A sample counts while all
instances were at work: one that began after another had made its last call of the block is labelled `alone`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.kit import system_files
from laptime.launch.worker import CommandFailed, WorkerProcess
from laptime.measure.protocol import Block, Command, Facts, Load, Loaded, Message, Pass, Samples
from laptime.probes.cpu import cpu_list
from laptime.records.series import Label, Series

_FIRST_ALONE = frozenset({"outputs", "count", "copies"})
"""Passes whose answer is that of any instance; memory is summed, energy and peaks are not told."""


def in_order(cpus: Sequence[int], root: str = "/") -> list[int]:
    """CPUs with one thread of every core first, then the second ones."""
    seen: dict[tuple[int, ...], int] = {}
    place = {}
    for cpu in sorted(cpus):
        topology = Path(root) / f"sys/devices/system/cpu/cpu{cpu}/topology"
        words = system_files.text(topology / "thread_siblings_list") or str(cpu)
        core = tuple(cpu_list(words)) or (cpu,)
        place[cpu] = (seen.get(core, 0), cpu)
        seen[core] = seen.get(core, 0) + 1
    return sorted(cpus, key=lambda cpu: place[cpu])


def deal_cpus(instances: int, threads: int, cpus: Sequence[int], root: str = "/") -> list[list[int]]:
    """CPUs of each instance; [] if they do not suffice."""
    ordered = in_order(cpus, root)
    if instances * threads > len(ordered):
        return []
    return [ordered[at * threads : (at + 1) * threads] for at in range(instances)]


class Instances:
    """A worker that is several processes (`launch.worker.Worker`). start: makes that of one instance, on its
    CPUs."""

    def __init__(
        self, start: Callable[[Sequence[int]], WorkerProcess], cpus: Sequence[Sequence[int]]
    ) -> None:
        self._cpus = [list(each) for each in cpus]
        self._workers: list[WorkerProcess] = []
        try:
            for each in self._cpus:
                self._workers.append(start(each))
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return all(worker.alive for worker in self._workers)

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        """Ask as Worker does: all carry it out at the same time, passes apart."""
        if isinstance(command, Pass):
            if command.kind in _FIRST_ALONE:
                return self._all(self._workers[:1], command, timeout)[0]
            if command.kind == "memory":
                return _sum(self._all(self._workers, command, timeout))
            return []
        if isinstance(command, Load):
            options = {name: value for name, value in command.variant.options.items() if name != "instances"}
            limit = command.memory_limit and command.memory_limit // len(self._workers)
            command = Load(variant=structs.replace(command.variant, options=options), memory_limit=limit)
        answers = self._all(self._workers, command, timeout)
        if isinstance(command, Block):
            return together([[each for each in answer if isinstance(each, Samples)] for answer in answers])
        return [
            structs.replace(message, facts={**message.facts, "instance_cpus": self._cpus})
            if isinstance(message, Loaded)
            else message
            for message in answers[0]
        ]

    def _all(self, workers: Sequence[WorkerProcess], command: Command, timeout: float) -> list[list[Message]]:
        """The answers; one failure ends them all, because the others would answer a question too late.
        Raises CommandFailed: the first that any of them gave."""
        try:
            for worker in workers:
                worker.start(command)
            return [worker.finish(timeout=timeout) for worker in workers]
        except CommandFailed:
            self.close()
            raise

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


def together(answers: Sequence[Sequence[Samples]]) -> list[Message]:
    """The samples of one block of all instances as those of one worker, in the order in which they began."""
    parts = [{series.key: series for samples in answer for series in samples.series} for answer in answers]
    batch = next((samples.batch for answer in answers for samples in answer), 1)
    key = next((key for key in (parts[0] if parts else {}) if key[0] == "latency"), None)
    if key is None or not all(key in part and part[key].at for part in parts):
        return []
    times = [part[key] for part in parts]
    order = sorted(
        ((start, of, index) for of, series in enumerate(times) for index, start in enumerate(series.at)),
    )
    alone = _alone(times)
    made: list[Series] = []
    for name, first in parts[0].items():
        columns = [part.get(name) for part in parts]
        if any(
            column is None or len(column.samples) != len(of.samples)
            for column, of in zip(columns, times, strict=True)
        ):
            continue  # what has times of its own is told for one program, and there are several
        values = [list(column.samples) for column in columns if column is not None]
        if name[0] == "disturbance/others":
            values = _without_instances(values, parts, times)
        whole = structs.replace(
            first,
            samples=[values[of][at] for _, of, at in order],
            at=[start for start, _, _ in order] if first.at else [],
            label=_column("label", columns, order),
            calls=_column("calls", columns, order, fill=1),
        )
        made.append(whole)
    at_latency = next(index for index, series in enumerate(made) if series.key == key)
    labels = made[at_latency].label or [0] * len(order)
    marked = [
        bits | (int(Label.ALONE) if (of, at) in alone else 0)
        for bits, (_, of, at) in zip(labels, order, strict=True)
    ]
    made[at_latency] = structs.replace(made[at_latency], label=marked if any(marked) else [])
    return [Samples(batch=batch, series=made)]


def _column(
    name: str, columns: Sequence[Series | None], order: Sequence[tuple[float, int, int]], *, fill: int = 0
) -> list[int]:
    """An optional column of all, in order; [] if none has it."""
    values: list[list[int]] = [getattr(column, name) if column is not None else [] for column in columns]
    if not any(values):
        return []
    return [values[of][at] if values[of] else fill for _, of, at in order]


def _alone(times: Sequence[Series]) -> set[tuple[int, int]]:
    """(instance, sample) that began after another instance had ended its last, or ended before one began.

    The ends of the others say so, never a sample's own duration."""
    ends = [series.at[-1] + series.samples[-1] * _calls(series, -1) for series in times]
    begins = [series.at[0] for series in times]
    found = set()
    for of, series in enumerate(times):
        others_end = min((end for index, end in enumerate(ends) if index != of), default=float("inf"))
        others_begin = max((begin for index, begin in enumerate(begins) if index != of), default=0.0)
        for at, start in enumerate(series.at):
            if start > others_end or start + series.samples[at] * _calls(series, at) < others_begin:
                found.add((of, at))
    return found


def _calls(series: Series, at: int) -> int:
    return series.calls[at] if series.calls else 1


def _without_instances(
    values: list[list[float]], parts: Sequence[dict[Any, Series]], times: Sequence[Series]
) -> list[list[float]]:
    """CPUs that others used in a block, less those that the other instances did: these are no neighbours."""
    rates = []
    for part, series in zip(parts, times, strict=True):
        used = part.get(("disturbance/cpu", series.regime))
        whole = sum(seconds * _calls(series, index) for index, seconds in enumerate(series.samples))
        rates.append(sum(used.samples) / whole if used is not None and whole else 0.0)
    return [
        [max(0.0, value - sum(rate for other, rate in enumerate(rates) if other != of)) for value in column]
        for of, column in enumerate(values)
    ]


def _sum(answers: Sequence[Sequence[Message]]) -> list[Message]:
    """Memory of all instances: pages that they share are counted for each."""
    facts = [[message for message in answer if isinstance(message, Facts)] for answer in answers]
    first = facts[0][0] if facts and facts[0] else None
    if first is None:
        return []
    made = []
    for index, series in enumerate(first.series):
        same = [fact[0].series[index] for fact in facts if fact and index < len(fact[0].series)]
        total = [sum(values) for values in zip(*(part.samples for part in same), strict=False)]
        note = f"of {len(answers)} instances; shared pages are counted for each"
        made.append(structs.replace(series, samples=total, note=note))
    return [structs.replace(first, series=made)]
