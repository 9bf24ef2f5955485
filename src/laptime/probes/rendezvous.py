"""How programs on several machines find each other: the first listens, and its plan says where; the others
look for an address that answers. gloo and NCCL take that network, unless the user names one."""

from __future__ import annotations

import os
import socket

import psutil
from msgspec import Struct

from laptime.kit.errors import Unavailable
from laptime.probes import machine
from laptime.records.plan import Setting
from laptime.store.live_run import LiveRun

REACH = 5.0  # seconds that an address may take to answer
NETWORK = "GLOO_SOCKET_IFNAME"
MEND = f"{NETWORK}=eth1 laptime ...   names a network that all share; or open the ports between them"


class Rendezvous(Struct, frozen=True, kw_only=True):
    """A machine's share of it. names: of all, by number. number: of this one. addresses, port: where the
    first listens, as its plan says. network: the interface to take; "": one whose address answers."""

    names: list[str]
    number: int = 0
    addresses: list[str] = []
    port: int = 0
    network: str = ""


def meet(request: Rendezvous, live: LiveRun) -> tuple[str, int]:
    """The address at which this machine reaches the first one, and a port that is free there; starts `live`.
    Raises Unavailable: no address answers, or the network that was named has none."""
    if request.network:
        os.environ.setdefault(NETWORK, request.network)
    address, port, own = (_find if request.number else _listen)(request, live)
    network = os.environ.setdefault(NETWORK, _networks().get(own, ""))
    os.environ.setdefault("NCCL_SOCKET_IFNAME", network)
    return address, port


def _listen(request: Rendezvous, live: LiveRun) -> tuple[str, int, str]:
    """The address by which the others have found this machine, the port, and the address once more."""
    found, named = _networks(), os.environ.get(NETWORK, "")
    outside = [address for address, name in found.items() if not name.startswith("lo")] or [*found]
    addresses = [each for each, name in found.items() if name in named.split(",")] if named else outside
    if not addresses:
        known = ", ".join(dict.fromkeys(found.values()))
        raise Unavailable(f"no network {named} has an address", why=f"there are {known}", next=MEND)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    with socket.create_server(("", 0), family=family, dualstack_ipv6=both) as server:
        port = server.getsockname()[1]
        plan = {"addresses": Setting(value=addresses), "port": Setting(value=port)}
        live.start(environment=machine.environment(), plan=plan)
        for _ in request.names[1:]:
            connection, _ = server.accept()
            with connection:
                address = connection.getsockname()[0].removeprefix("::ffff:")
    return address, port, address


def _find(request: Rendezvous, live: LiveRun) -> tuple[str, int, str]:
    """The address of the first that answers, its port, and the address of this machine that reaches it."""
    live.start(environment=machine.environment())
    tried = []
    for address in request.addresses:
        try:
            with socket.create_connection((address, request.port), REACH) as connection:
                return address, request.port, connection.getsockname()[0]
        except OSError as error:
            tried.append(f"{address} port {request.port}: {error.strerror or error}")
    raise Unavailable(f"{request.names[0]} cannot be reached", why="; ".join(tried), next=MEND)


def _networks() -> dict[str, str]:
    """The interface of each address of this machine, IPv4 first."""
    every = [(each.family, each.address, name) for name, of in psutil.net_if_addrs().items() for each in of]
    families = (socket.AF_INET, socket.AF_INET6)
    return {at: name for kind in families for family, at, name in every if family == kind and "%" not in at}
