"""`ray`, `ray:HOST:PORT` and `ray://HOST`: nodes of a Ray cluster, one actor each.

Ray is kept out of laptime's own process: this file is the program that lists the nodes, and the one that
starts a node's half of a verb and hands its two pipes on."""

import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

from laptime.launch.fleet import NODE, Machine, ask

LONGEST = 60.0  # seconds that a connection to the cluster and the list of its nodes may take
CHUNK = 1 << 16  # bytes of a node's lines that one call brings at most


def machines(text: str) -> list[Machine]:
    """The nodes that are alive. Raises UsageError: no Ray here, or no cluster answers."""
    address = f"ray:{text}" if text.startswith("//") else text or "auto"
    program = (sys.executable, "-P", "-m", "laptime.launch.fleet.engines.ray", address)
    said = ask([*program], LONGEST, f"no Ray cluster answers at {address!r}", "ray status")
    nodes: list[tuple[str, str]] = json.loads(said)
    hosts = [host for _, host in nodes]
    return [
        Machine(host if hosts.count(host) == 1 else f"{host}-{node[:6]}", (*program, node), host)
        for node, host in nodes
    ]


class _Remote:
    """On a node: the program that carries a verb out, and its lines."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._node = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def write(self, line: bytes) -> None:
        assert self._node.stdin is not None
        self._node.stdin.write(line)
        self._node.stdin.flush()

    def read(self) -> bytes:
        """The next of its lines, or a part of them; nothing once it has ended."""
        assert self._node.stdout is not None
        return os.read(self._node.stdout.fileno(), CHUNK)


def main(address: str, node: str = "", *words: str) -> int:
    """List the nodes that are alive as JSON: id and host of each; or carry a verb out on one of them."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Ray tells on standard output of other nodes that died
    try:
        import ray
    except ImportError:
        sys.exit("the package ray is not installed: pip install ray")
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    if not node:
        alive = [each for each in ray.nodes() if each["Alive"]]
        answer.write(json.dumps([(each["NodeID"], each["NodeManagerHostname"]) for each in alive]).encode())
        answer.close()
        return 0
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": there, "max_concurrency": 2}
    actor: Any = ray.remote(_Remote).options(**options).remote((*NODE, *words))

    def forward() -> None:  # one waits while it reads, the other writes
        for line in sys.stdin.buffer:
            ray.get(actor.write.remote(line))

    threading.Thread(target=forward, daemon=True).start()
    while chunk := ray.get(actor.read.remote()):
        answer.write(chunk)
        answer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
