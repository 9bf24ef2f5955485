"""The link between two machines: how long an all-reduce of two ranks takes, by the size of its message.

The rank that is started first listens, and its plan says where; the other looks for an address that answers.
gloo and NCCL are told to take the network of that connection, unless the user has named one."""

import os
import socket
import time
from datetime import timedelta
from typing import Any

import psutil
from msgspec import Struct

from laptime.kit.errors import Unavailable
from laptime.probes import machine
from laptime.records.case import Axis, Case
from laptime.records.event import CaseAdded, Listener, Measured, ignore
from laptime.records.plan import Setting
from laptime.records.requests import LATENCY
from laptime.records.run import Run
from laptime.records.series import Regime, Series
from laptime.store.live_run import LiveRun

SIZES = (8, 1 << 16, 1 << 20, 1 << 24)  # bytes of a message
UNTIMED, FEWEST, MOST, SECONDS = 3, 5, 100, 0.3  # calls of each size before the timing, and timed; how long
REACH = 5.0  # seconds that an address may take to answer
TIMEOUT = timedelta(seconds=40)  # of an all-reduce; a node may be silent for less
NETWORK = "GLOO_SOCKET_IFNAME"
MEND = f"{NETWORK}=eth1 laptime doctor ...   names a network that both share; or open the ports between them"


class LinkRequest(Struct, frozen=True, kw_only=True):
    """One end of a link. peer: the other one. addresses, port: where that listens; without, this end does.
    network: the interface to take; "": one whose address answers."""

    peer: str
    addresses: list[str] = []
    port: int = 0
    network: str = ""


def link(request: LinkRequest, emit: Listener = ignore) -> Run:
    """Time all-reduces with the other end, a case a size: by NCCL if each has a CUDA device of its own, else
    by gloo. Raises Unavailable: there is no torch.distributed, or the ends do not reach each other."""
    try:
        import torch.distributed as distributed

        why = "" if distributed.is_available() else "this torch was built without it"
    except ImportError as error:
        why = str(error)
    if why:
        raise Unavailable("links need torch.distributed", why=why, next="pip install torch   there")
    if request.network:
        os.environ.setdefault(NETWORK, request.network)
    live, rank = LiveRun("link", emit), int(bool(request.addresses))
    try:
        store, address = (_find if rank else _listen)(distributed, request, live)
        network = os.environ.setdefault(NETWORK, _networks().get(address, ""))
        os.environ.setdefault("NCCL_SOCKET_IFNAME", network)
        device = _device(distributed, store, rank)
        backend = "nccl" if device == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=2, timeout=TIMEOUT)
        for size in SIZES:
            axes: dict[str, Axis] = {"bytes": size, "backend": backend, "network": network}
            case = Case(key=f"{size} B", target="torch.distributed.all_reduce", axes=axes)
            live(CaseAdded(case))
            times = _times(distributed, size, device)
            live(Measured(case.key, Series(metric=LATENCY, samples=times, regime=Regime.ISOLATED)))
        store.set("done", "yes") if rank else store.get("done")  # the store lives as long as both need it
        distributed.destroy_process_group()
    except RuntimeError as error:  # as all errors of torch.distributed are
        what = f"there is no all-reduce with {request.peer} over {os.environ.get(NETWORK, 'any network')}"
        raise Unavailable(what, why=str(error).splitlines()[0][:200], next=MEND) from error
    return live.finish()


def _listen(distributed: Any, request: LinkRequest, live: LiveRun) -> tuple[Any, str]:
    """The store of both ends, and the address by which the other end has found it.
    Raises Unavailable: the network that was named has no address."""
    found, named = _networks(), os.environ.get(NETWORK, "")
    outside = [address for address, name in found.items() if not name.startswith("lo")] or [*found]
    addresses = [each for each, name in found.items() if name in named.split(",")] if named else outside
    if not addresses:
        known = ", ".join(dict.fromkeys(found.values()))
        raise Unavailable(f"no network {named} has an address", why=f"there are {known}", next=MEND)
    store = distributed.TCPStore("localhost", 0, 2, True, TIMEOUT, wait_for_workers=False)
    plan = {"addresses": Setting(value=addresses), "port": Setting(value=store.port)}
    live.start(environment=machine.environment(), plan=plan)
    while not store.check(["found"]):
        time.sleep(0.02)  # in `get` it would not hear that it is to end
    return store, store.get("found").decode()


def _find(distributed: Any, request: LinkRequest, live: LiveRun) -> tuple[Any, str]:
    """The store of both ends, and the address of this end that reaches it. Raises Unavailable: none does."""
    live.start(environment=machine.environment())
    tried = []
    for address in request.addresses:
        try:
            with socket.create_connection((address, request.port), REACH) as connection:
                own = connection.getsockname()[0]
            store = distributed.TCPStore(address, request.port, 2, False, TIMEOUT)
            store.set("found", address)
            return store, own
        except (OSError, RuntimeError) as error:
            tried.append(f"{address} port {request.port}: {getattr(error, 'strerror', '') or error}")
    raise Unavailable(f"{request.peer} cannot be reached", why="; ".join(tried), next=MEND)


def _networks() -> dict[str, str]:
    """The interface of each address of this machine, IPv4 first."""
    every = [(each.family, each.address, name) for name, of in psutil.net_if_addrs().items() for each in of]
    families = (socket.AF_INET, socket.AF_INET6)
    return {at: name for kind in families for family, at, name in every if family == kind and "%" not in at}


def _device(distributed: Any, store: Any, rank: int) -> str:
    """`cuda` if each end has a device of its own, else `cpu`."""
    import torch

    has_one = torch.cuda.is_available() and distributed.is_nccl_available()
    own = str(torch.cuda.get_device_properties(0).uuid) if has_one else "none"
    store.set(f"device {rank}", own)
    other = store.get(f"device {1 - rank}").decode()
    return "cpu" if "none" in (own, other) or own == other else "cuda"


def _times(distributed: Any, size: int, device: str) -> list[float]:
    """Seconds of each call with a message of so many bytes; each end makes as many."""
    import torch

    message = torch.zeros(size // 4, device=device)

    def call() -> float:
        began = time.perf_counter()
        distributed.all_reduce(message)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    before = [call() for _ in range(UNTIMED)]
    number = torch.tensor([max(FEWEST, min(MOST, int(SECONDS / min(before))))], device=device)
    distributed.broadcast(number, 0)
    return [call() for _ in range(int(number.item()))]
