"""The link between two machines: two ranks find each other and agree on what they do, or say why not."""

from __future__ import annotations

import re
import signal
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from laptime.analysis.visits import line
from laptime.kit.errors import Unavailable
from laptime.launch.fleet import NODE, Machine
from laptime.launch.fleet.node import run_on
from laptime.probes import link, rendezvous
from laptime.probes.link import SIZES
from laptime.probes.rendezvous import NETWORK, Rendezvous
from laptime.records.case import Case, Failure
from laptime.verbs.doctor import fleet

HERE = Machine("a", (sys.executable, *NODE), "here", is_here=True)


def node(name: str, before: str) -> Machine:
    """A node here, after some Python was run in it."""
    run = "import runpy; runpy.run_module('laptime.apps.node', run_name='__main__', alter_sys=True)"
    return Machine(name, (sys.executable, "-c", f"import os\n{before}\n{run}"), "here", is_here=True)


def visited(first: Machine, second: Machine) -> tuple[list[Case], fleet._Fleet]:
    seen = fleet._Fleet()
    return fleet._visit((first, second), seen), seen


# The line


@pytest.mark.parametrize(("latency", "bandwidth"), [(40e-6, 1.2e9), (2e-3, 1e7), (5e-6, 4e11)])
def test_a_line_has_the_latency_and_the_bandwidth_it_was_made_of(latency: float, bandwidth: float) -> None:
    found, each = line({size: latency + size / bandwidth for size in SIZES})
    assert found == pytest.approx(latency)
    assert 1 / each == pytest.approx(bandwidth)


def test_one_size_that_is_off_by_a_share_moves_the_line_by_no_more() -> None:
    for off in SIZES:
        found, each = line({size: (1e-4 + size / 1e9) * (1.1 if size == off else 1.0) for size in SIZES})
        assert found == pytest.approx(1e-4, rel=0.11)
        assert each == pytest.approx(1e-9, rel=0.11)


def test_times_that_fall_with_size_give_no_bandwidth_below_zero() -> None:
    found, each = line({8: 1.0, 1 << 20: 0.5})
    assert found > 0
    assert each > 0


# Two ends


@pytest.mark.slow
@pytest.mark.torch
def test_two_nodes_find_each_other_and_time_messages_of_all_sizes() -> None:
    found, seen = visited(HERE, node("b", ""))
    assert [case.key for case in found] == [f"a - b/{size} B" for size in SIZES], seen.lost
    assert found[-1].series[0].samples > found[0].series[0].samples > [0.0]
    axes = found[0].axes
    assert axes["network"] in rendezvous._networks().values()
    assert axes["hardware"] == f"{seen.hardware['a']} gloo", "both are of one kind"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("first", [False, True])
def test_the_end_that_dies_is_named_and_not_the_one_that_misses_it(
    number: int, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "run_on", partial(run_on, silent=15.0))
    dying = node(
        "b", f"import laptime.probes.link as l\nl._times = lambda *_: os.kill(os.getpid(), {number:d})"
    )
    found, seen = visited(*((dying, HERE) if first else (HERE, dying)))
    assert not found
    assert {name: failure.kind for name, failure in seen.lost.items()} == {"b": "died"}
    assert seen.lost["b"].what.startswith("b was lost: ")


@pytest.mark.parametrize("first", [False, True])
def test_a_node_without_torch_says_so_in_three_lines(first: bool) -> None:
    bare = node("b", "import sys; sys.modules['torch'] = None")
    _, seen = visited(*((bare, HERE) if first else (HERE, bare)))
    (failure,) = seen.lost.values()
    assert failure.kind == "unavailable"
    assert failure.what == "b: links need torch.distributed"
    assert "torch" in failure.why
    assert failure.next == "pip install torch   there"


@pytest.mark.torch
def test_nodes_that_do_not_reach_each_other_name_the_address_and_the_way_out() -> None:
    near = "import laptime.probes.rendezvous as r\nr.REACH = 0.5"
    far = f"{near}\nr._networks = lambda: {{'192.0.2.77': 'eth7'}}"
    _, seen = visited(node("a", far), node("b", near))
    (failure,) = seen.lost.values()
    assert failure.what == "b: a cannot be reached"
    assert re.match(r"192\.0\.2\.77 port \d+: ", failure.why)
    assert failure.next.startswith(f"{NETWORK}=")


@pytest.mark.torch
def test_a_network_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORK, "ib7")
    with pytest.raises(Unavailable, match="no network ib7 has an address") as error:
        link.link(Rendezvous(names=["a", "b"]))
    assert "lo" in error.value.why


def test_the_network_that_was_asked_for_here_is_told_to_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NETWORK, "ib0")
    told: list[Rendezvous] = []

    def ask(self: object, machine: Machine, verb: str, request: Rendezvous, *rest: object) -> None:
        told.append(request)
        raise fleet._Nothing(machine.name, Failure(kind="died", what="gone"))

    monkeypatch.setattr(fleet._Fleet, "ask", ask)
    visited(HERE, HERE)
    assert [request.network for request in told] == ["ib0"]


class Store(dict[str, bytes]):
    """A store in which the other end has said what its device is."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("own", "other", "device"),
    [("GPU-1", "GPU-2", "cuda"), ("GPU-1", "GPU-1", "cpu"), ("GPU-1", "none", "cpu"), ("", "GPU-2", "cpu")],
)
def test_nccl_needs_a_device_of_its_own_at_each_end(
    own: str, other: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(own))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=own))
    store = Store({"device 1": other.encode()})
    distributed = SimpleNamespace(is_nccl_available=lambda: True)
    assert link._device(distributed, store, 0) == device
    assert store["device 0"].decode() == (own or "none")
