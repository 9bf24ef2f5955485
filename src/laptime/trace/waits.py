"""Which calls made the host wait for the device, and which operator caused a call.

A call waits when it is

- a synchronisation (`cudaStreamSynchronize`, `hipDeviceSynchronize` ...) or frees device memory (`cudaFree`);
- a copy without `Async` in its name, other than device to device;
- an asynchronous copy to the host into pageable memory: it returns only when the copy is done;
- an asynchronous copy to the device out of pageable memory that returned after the copy had begun: such a
  copy first waits for all work of its stream (CUDA Runtime API, "API synchronization behavior").

Lies when: names of copies do not tell the memory (ROCm); then a copy to the host is taken for waiting if its
call returned after the copy's end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.trace import names, range_tree
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index, Mask
from laptime.trace.links import of_host
from laptime.trace.view import View, once

Words = NDArray[np.str_]

_is_aten = names.matching("^aten::")

_SYNCHRONISES = re.compile(r"^(cuda|hip|cu|mtia|xpu|mu|acl)\w*Synchronize|^(cuda|hip)Free$|^cuMemFree(_v2)?$")
_COPIES = re.compile(r"^(cuda|hip|cu|mtia|xpu|mu|acl)\w*Memcpy", re.IGNORECASE)
_COPIES_LATER = re.compile(r"Async|Peer|DtoD", re.IGNORECASE)
_DIRECTIONS = {
    "HtoD": re.compile(r"HtoD|HostToDevice|\b[HM]2D\b"),
    "DtoH": re.compile(r"DtoH|DeviceToHost|\bD2[HM]\b"),
    "DtoD": re.compile(r"DtoD|DeviceToDevice|\bD2D\b"),
    "HtoH": re.compile(r"HtoH|HostToHost|\bH2H\b"),
    "PtoP": re.compile(r"PtoP|PeerToPeer|\bP2P\b"),
}


def direction(name: str) -> str:
    """HtoD, DtoH, DtoD, HtoH or PtoP by the name of a copy on the device; "" when it does not tell."""
    return next((name_of for name_of, pattern in _DIRECTIONS.items() if pattern.search(name)), "")


def memory(name: str) -> str:
    """pageable or pinned: the host side of a copy; device when it has none; "" when its name is silent."""
    for kind in ("pageable", "pinned"):
        if kind in name.lower():
            return kind
    return "device" if direction(name) in ("DtoD", "PtoP") or "(Device)" in name else ""


def sorts(view: View, rows: Index) -> tuple[Words, Words]:
    """Direction and host memory of these device rows, by their names."""
    kernel_names, of = np.unique(view.trace.device.name[rows], return_inverse=True)
    texts = [view.trace.texts[name] for name in kernel_names]
    return np.array([*map(direction, texts), ""])[of], np.array([*map(memory, texts), ""])[of]


@once
def waiting(view: View) -> Index:
    """Host rows of the calls that waited for the device, ascending."""
    waits = _calls(view, _SYNCHRONISES)
    waits |= _calls(view, _COPIES) & ~_calls(view, _COPIES_LATER)
    copies = _copies(view)
    waits[copies.launch[copies.direction == "DtoD"]] = False
    waits[copies.launch[_waited(view, copies)]] = True
    rows = np.flatnonzero(waits)
    above = view.links.calls.parent[rows]  # a driver call inside a runtime call is the same wait
    return rows[~((above >= 0) & waits[above])].astype(np.int32)


@once
def uploads(view: View) -> Index:
    """Host rows of calls that copied to the device and were carried out by the host, or waited; ascending."""
    copies = _copies(view)
    is_upload = (copies.memory == "pageable") | np.isin(copies.launch, waiting(view))
    return np.unique(copies.launch[is_upload & (copies.direction == "HtoD")])


def culprits(view: View, rows: Index) -> Index:
    """Per host row (or NONE) the operator that caused it, as the program called it; NONE without.

    That is the innermost operator, or the outermost of the aten operators it lies in without a break:
    `aten::item` for `aten::_local_scalar_dense`, `aten::to` for `aten::copy_`.
    """
    return of_host(_called(view), rows)


@once
def _called(view: View) -> Index:
    """Per host row: what `culprits` names for it."""
    host, calls = view.trace.host, view.links.calls
    aten = names.rows(view.trace.texts, host.name, _is_aten)
    outermost = ~(aten & (calls.parent >= 0) & np.append(aten, False)[calls.parent])
    rows = np.where(outermost, np.arange(len(host)), NONE).astype(np.int32)
    operator = view.links.operator_of.copy()
    operator[names.rows(view.trace.texts, of_host(host.name, operator), names.is_step)] = NONE
    return of_host(range_tree.inherit(calls, rows), operator)


def labels(view: View, rows: Index) -> list[str]:
    """Labels of these waits: the call, and for an asynchronous copy the memory that made it wait."""
    copies = _copies(view)
    calls = [view.trace.texts[name] for name in view.trace.host.name[rows]]
    for word, way in (("HtoD", "from"), ("DtoH", "to")):
        for at in np.flatnonzero(np.isin(rows, copies.launch[copies.direction == word])).tolist():
            if _COPIES_LATER.search(calls[at]):
                calls[at] += f" {word} {way} pageable memory"
    return calls


class _Copies(NamedTuple):
    """Copies that have a launch: device rows, host rows, and what their names say."""

    row: Index
    launch: Index
    direction: Words
    memory: Words


@once
def _copies(view: View) -> _Copies:
    kind, launch = view.trace.device.kind, view.links.launch
    rows = np.flatnonzero((kind == DeviceKind.MEMCPY) & (launch >= 0)).astype(np.int32)
    return _Copies(rows, launch[rows], *sorts(view, rows))


def _waited(view: View, copies: _Copies) -> Mask:
    """Which copies their call waited for, whatever the call's name."""
    returned = view.trace.host.end[copies.launch]
    begun, done = (
        returned >= instant[copies.row] for instant in (view.trace.device.start, view.trace.device.end)
    )
    to_host, to_device = copies.direction == "DtoH", copies.direction == "HtoD"
    pageable, unknown = copies.memory == "pageable", copies.memory == ""
    waited: Mask = (to_host & (pageable | (unknown & done))) | (to_device & pageable & begun)
    return waited


def _calls(view: View, pattern: re.Pattern[str]) -> Mask:
    """Which host rows are runtime or driver calls with such a name."""
    host = view.trace.host
    called: Mask = (host.kind == HostKind.RUNTIME) | (host.kind == HostKind.DRIVER)
    column = np.where(called, host.name, np.int32(NONE))
    return called & names.rows(view.trace.texts, column, names.matching(pattern))
