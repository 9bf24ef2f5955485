"""Passes that count or measure something once, apart from the timed loops."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from laptime.kit.clock import Clock
from laptime.kit.errors import LaptimeError
from laptime.measure import loop, protocol
from laptime.measure.metrics import PAGE_FAULTS
from laptime.measure.protocol import Facts, Model, Pass, PeakWork, Workload
from laptime.probes import energy, host_memory
from laptime.probes.scheduler import Evidence
from laptime.records.details import Details, Memory, Outputs
from laptime.records.series import Label, Series, read_metrics

KINDS = ("outputs", "count", "memory", "copies", "energy")
"""Passes of every case, in the order in which they are run: cheap first."""
RECORD, COMPARE = "record", "compare"
"""Of cases that run one model in several ways: the first one's calls are kept, others' held against them."""
PEAK = "peak"  # not one of them: a block of the device's peak between the blocks of the cases (`peak_block`)
_LOOKS = 2  # a short call may be done by the time its output is looked at; rarely twice


def run(command: Pass, model: Model, workload: Workload) -> Facts:
    if command.kind not in _PASSES:
        raise LaptimeError(f"no pass is called {command.kind!r}")
    series, details = _PASSES[command.kind](command, model, workload)
    return Facts(batch=command.batch, series=series, details=details)


_Result = tuple[list[Series], Details]


def _outputs(command: Pass, model: Model, workload: Workload) -> _Result:
    facts = model.check_outputs(command.batch) if isinstance(model, protocol.ChecksOutputs) else {}
    for _ in range(_LOOKS):
        output = workload.call()
        workload.sync()
        if is_pending(output):
            facts = {**facts, "pending": True}
            break
    return [], Details(outputs=msgspec.convert(facts, Outputs) if facts else None)


def is_pending(output: Any) -> bool:
    """Whether an output is still being computed, as far as JAX's arrays and PyTorch's CUDA streams tell."""
    if isinstance(output, Mapping | list | tuple):
        return any(map(is_pending, output.values() if isinstance(output, Mapping) else output))
    if getattr(output, "is_cuda", False) is True and (torch := sys.modules.get("torch")):
        return not torch.cuda.current_stream(output.device).query()
    is_ready = getattr(output, "is_ready", None)
    return callable(is_ready) and is_ready() is False


def _count(command: Pass, model: Model, workload: Workload) -> _Result:
    if not isinstance(model, protocol.CountsWork):
        return [], Details()
    series, receipt = model.count(command.batch)
    return series, Details(count=receipt)


def _memory(command: Pass, model: Model, workload: Workload) -> _Result:
    """Host peak of one call, and the device's split if there is one."""

    def call() -> None:
        workload.call()
        workload.sync()

    call()  # leaves the allocator as a steady call finds it
    faults = host_memory.page_faults_of(call)
    host = host_memory.peak_of(call)
    note = "" if host.exact else host.note
    series = [
        Series(metric=metric, samples=[float(value or 0)], probe="host_memory", note=text)
        for metric, value, text in (
            (host_memory.PEAK, host.peak, note),
            (host_memory.INCREASE, host.increase, note),
            (PAGE_FAULTS, faults, ""),
        )
    ]
    split: dict[str, Any] = {}
    if isinstance(model, protocol.MeasuresMemory):
        more, split = model.device_memory(command.batch)
        series += more
    return series, Details(memory=Memory(host=host, device=split))


def _copies(command: Pass, model: Model, workload: Workload) -> _Result:
    return (model.copies(command.batch, 20) if isinstance(model, protocol.TimesCopies) else []), Details()


def _energy(command: Pass, model: Model, workload: Workload) -> _Result:
    devices = [device.name for device in model.devices()]
    return energy.energy_of(workload, devices=devices, seconds=command.seconds)


def _record(command: Pass, model: Model, workload: Workload) -> _Result:
    if isinstance(model, protocol.GivesOutputs):
        # A worker in a user's environment starts without numpy; a model that gives arrays has it.
        from laptime.measure import recorded_calls

        sizes = [command.batch, recorded_calls.other_batch(command.batch)]
        recorded = recorded_calls.record(model.outputs, model.input_arrays, sizes)
        if recorded.calls[0].outputs:  # else nothing can be held against it
            recorded.save(Path(command.path))
    return [], Details()


def _compare(command: Pass, model: Model, workload: Workload) -> _Result:
    if not isinstance(model, protocol.GivesOutputs) or not Path(command.path).is_file():
        return [], Details()
    from laptime.measure import recorded_calls

    calls = recorded_calls.RecordedCalls.load(Path(command.path))
    found = recorded_calls.compare(
        model.outputs, calls, against=command.against, dtype=command.dtype, fixed=True
    )
    return [], Details(outputs_compared=found)


_PASSES: dict[str, Callable[[Pass, Model, Workload], _Result]] = {
    "outputs": _outputs,
    "count": _count,
    "memory": _memory,
    "copies": _copies,
    "energy": _energy,
    RECORD: _record,
    COMPARE: _compare,
}


# The device's peak, in short blocks between the blocks of the cases: in their minutes, with their evidence.
#
#     call, sync | t0 call call ... sync t1        one sample: FLOP/s over the whole of about `SECONDS`


SECONDS = 0.02  # of the timed calls of one block
LOST_SHARE = 0.02
"""Of a block: what others took beyond it is a disturbance, as in `labels`, which workers do not import."""
(PEAK_RATE,) = read_metrics("""
evidence/peak FLOP/s higher measured peak
    Rate of a large matrix product in the model's dtype, in short blocks between the cases'.
    Lies when: A product of this size does not fill the device; other threads or dtypes than the model's.
""")


def peak_block(work: PeakWork, *, evidence: Evidence | None, clock: Clock) -> Series:
    """One sample of the peak in FLOP/s, labelled with what disturbed it."""
    _, last = loop.seconds_of(work, clock), loop.seconds_of(work, clock)
    once = max(last, 1e-7)
    calls = max(1, int(SECONDS / once))
    if evidence is not None:
        evidence.refresh_threads()
    terms = loop.Terms(seconds=0.0, min_calls=1, max_calls=calls, evidence=evidence, clock=clock)
    tape = loop.time_saturated(work, terms, estimate=once)
    columns = (
        (Label.WAITED, tape.waited),
        (Label.STOLEN, tape.stolen),
        (Label.STOLEN, tape.missing),
        (Label.THROTTLED, tape.throttled),
    )
    label = [0] * len(tape.seconds)
    for bit, column in columns:
        for index, lost in enumerate(column):
            label[index] |= int(bit) if lost > LOST_SHARE * tape.seconds[index] else 0
    return Series(
        metric=PEAK_RATE,
        samples=[work.flops / max(seconds, 1e-12) for seconds in tape.seconds],
        at=[round(at, 6) for at in tape.start],
        label=label,
        calls=tape.calls,
        probe="wall",
        clock="perf_counter",
    )
