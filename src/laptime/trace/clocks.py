"""Orders of events that cannot be: mended before anything is computed, and said as warnings of the file.

- Work begins before the call that launched it, or ends after the host had waited for its end, or none of it
  begins within `AFAR` of its launch: the clocks of host and device are apart. The device's times are moved.
- Work lasts beyond the beginning of the next on its stream, which runs one after the other: it is cut there.

Lies when: one stream in the file stands for several (graphs are left as they are, and so are files in which
more than `FEW` of the work overlaps); the distance between launch and work is an estimate after a move."""

from dataclasses import replace

import numpy as np

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.trace import names
from laptime.trace.columns import DeviceWork, HostKind, Index, Mask, Trace

TOLERANCE = 100_000
"""ns that clocks of host and device may differ by: what launches and tables of times are off by anyway."""
AFAR = 100_000_000  # ns after its launch at which the first work of a device certainly has begun
SEEN = 0.02
"""Share of a device's work that must begin before its launch: of a long queue most begins late anyway."""
LONG, FEW = 1_000_000, 0.05
LATENCY = 2_000  # ns from launch to work on an idle device, as far as an estimate goes
_waits_for_device = names.matching(r"^(cuda|hip)DeviceSynchronize$|^cuCtxSynchronize$")


def mend(trace: Trace, launch: Index) -> Trace:
    """The trace with possible times; the same object if nothing has to be mended.
    launch: per device row the host row that launched it; NONE without."""
    device, warnings = trace.device, list[str]()
    shift = np.zeros(len(device), np.int64)
    for number in np.unique(device.device[launch >= 0]).tolist():
        own = device.device == number
        by = _apart(trace, launch, own)
        if by:
            shift[own] = by
            warnings.append(
                f"clocks of host and device {number} are {show(abs(by) * 1e-9, 's')} apart: the device's"
                " times are moved by that, and how long work waits after its launch is an estimate"
            )
    start, end = device.start + shift, device.end + shift
    cut = _overruns(device, launch, trace)
    for row, limit in cut:
        end[row] = min(int(end[row]), limit + int(shift[row]))
    if cut:
        lasted = max(int(device.end[row] - device.start[row]) for row, _ in cut)
        warnings.append(
            f"{count(len(cut), 'piece')} of the device's work, the longest of {show(lasted * 1e-9, 's')},"
            f" {'lasts' if len(cut) == 1 else 'last'} beyond the beginning of the next on the same stream,"
            " which is impossible: cut there"
        )
    if not warnings:
        return trace
    order = np.lexsort((end, start))
    columns = {**vars(device), "start": start, "end": end}
    moved = dict(zip(device.device.tolist(), shift.tolist(), strict=True))
    ranges = trace.device_ranges
    add = np.array([moved.get(number, 0) for number in ranges.device.tolist()], np.int64)
    return replace(
        trace,
        device=DeviceWork(**{name: column[order] for name, column in columns.items()}),
        device_ranges=replace(ranges, start=ranges.start + add, end=ranges.end + add),
        warnings=[*trace.warnings, *warnings],
    )


def _apart(trace: Trace, launch: Index, own: Mask) -> int:
    """ns to add to times of a device; 0 if nothing is impossible."""
    host, device = trace.host, trace.device
    rows = np.flatnonzero(own & (launch >= 0))
    calls = launch[rows]
    delay = device.start[rows] - host.start[calls]
    if len(rows) and np.quantile(delay, SEEN, method="higher") < -TOLERANCE:
        return LATENCY - int(np.quantile(delay, 0.01, method="lower"))
    waits = np.flatnonzero(
        (host.kind == HostKind.RUNTIME) & names.rows(trace.texts, host.name, _waits_for_device)
    )
    waits = waits[np.argsort(host.start[waits], kind="stable")]
    following = np.searchsorted(host.start[waits], host.end[calls])
    waited = following < len(waits)
    late = device.end[rows][waited] - host.end[waits[following[waited]]]
    if len(late) and np.median(late) > TOLERANCE:
        return -int(np.quantile(late, 0.99, method="higher"))
    if len(rows) == own.sum() and delay.min(initial=0 if not len(rows) else np.iinfo(np.int64).max) > AFAR:
        return LATENCY - int(delay.min())
    return 0


def _overruns(device: DeviceWork, launch: Index, trace: Trace) -> list[tuple[int, int]]:
    """Rows that last too long, and when the next one on their stream begins."""
    replayed = names.rows(trace.texts, np.append(trace.host.name, -1)[launch], names.is_graph_launch)
    rows = np.flatnonzero((device.stream >= 0) & (device.graph <= 0) & ~replayed)
    rows = rows[np.lexsort((device.start[rows], device.stream[rows], device.device[rows]))]
    if len(rows) < 2:
        return []
    this, following = rows[:-1], rows[1:]
    same = (device.stream[this] == device.stream[following]) & (
        device.device[this] == device.device[following]
    )
    over = device.end[this] - device.start[following]
    long = same & (over > LONG) & (2 * over > device.end[this] - device.start[this])
    if not long.any() or long.sum() > max(1, FEW * len(rows)):
        return []
    return list(zip(this[long].tolist(), device.start[following[long]].tolist(), strict=True))
