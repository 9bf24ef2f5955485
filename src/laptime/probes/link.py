"""The link between two machines: how long an all-reduce of two ranks takes, by the size of its message.

Both find each other as `probes.rendezvous` says."""

import os
import time
from datetime import timedelta
from typing import Any

from laptime.kit.errors import Unavailable
from laptime.probes.rendezvous import MEND, NETWORK, Rendezvous, meet
from laptime.records.case import Axis, Case
from laptime.records.event import CaseAdded, Listener, Measured, ignore
from laptime.records.requests import LATENCY
from laptime.records.run import Run
from laptime.records.series import Regime, Series
from laptime.store.live_run import LiveRun

SIZES = (8, 1 << 16, 1 << 20, 1 << 24)  # bytes of a message
UNTIMED, FEWEST, MOST, SECONDS = 3, 5, 100, 0.3  # calls of each size before the timing, and timed; how long
TIMEOUT = timedelta(seconds=40)  # of an all-reduce; a node may be silent for less


def link(request: Rendezvous, emit: Listener = ignore) -> Run:
    """Time all-reduces with the other end, a case a size: by NCCL if each has a CUDA device of its own, else
    by gloo. Raises Unavailable: there is no torch.distributed, or the ends do not reach each other."""
    try:
        import torch.distributed as distributed

        why = "" if distributed.is_available() else "this torch was built without it"
    except ImportError as error:
        why = str(error)
    if why:
        raise Unavailable("links need torch.distributed", why=why, next="pip install torch   there")
    live, rank = LiveRun("link", emit), request.number
    address, port = meet(request, live)
    network = os.environ[NETWORK]
    try:
        store = distributed.TCPStore(  # type: ignore[attr-defined]
            address, port, 2, not rank, TIMEOUT, wait_for_workers=False
        )
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
        what = f"there is no all-reduce with {request.names[1 - rank]} over {network or 'any network'}"
        raise Unavailable(what, why=str(error).splitlines()[0][:200], next=MEND) from error
    return live.finish()


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
