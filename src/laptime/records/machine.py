"""A machine that can be rented: what is in it, what an hour of it costs, and who said so when.

A vCPU is a logical CPU, a core a physical one, an OCPU what OCI rents: on x86 one core with both its threads,
on Arm one core (A1) or two (A2, A4). Speed goes with cores, so the three are told apart.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Origin = Literal["builtin", "updated", "local", "flag"]


class Machine(Struct, frozen=True, kw_only=True):
    """One machine. None and "" where the source does not tell.

    Attributes:
        provider: aws, azure, gcp, oci, ...; "" where only a price is known.
        region: where the price holds.
        shape: the provider's name: `g5.xlarge`, `VM.Standard.E3.Flex:16:32`.
        vcpus, cores, ocpus: see above.
        cpu: microarchitectures that it may have, names of `data/cpus.csv`.
        memory: GiB (OCI's GB are GiB).
        accelerator: name in `data/accelerators.csv`. accelerators: how many; a share of one below 1.
        accelerator_memory: GiB of each.
        usd_per_hour: on demand. spot_usd_per_hour: interruptible.
        seen: when the price was seen: YYYY, YYYY-MM or YYYY-MM-DD.
        source: who said so.
        origin: builtin (laptime's own file), updated (by `laptime cost update`), local
            (`machines.local.csv`), flag (typed).
    """

    provider: str
    region: str = ""
    shape: str
    vcpus: float | None = None
    cores: float | None = None
    ocpus: float | None = None
    cpu: list[str] = []
    memory: float | None = None
    accelerator: str = ""
    accelerators: float = 0.0
    accelerator_memory: float | None = None
    usd_per_hour: float
    spot_usd_per_hour: float | None = None
    seen: str = ""
    source: str = ""
    origin: Origin = "builtin"

    @property
    def name(self) -> str:
        """How it is typed: `aws:g5.xlarge`."""
        return f"{self.provider}:{self.shape}" if self.provider else self.shape

    @property
    def key(self) -> tuple[str, str, str]:
        """Two rows with this in common are one machine."""
        return self.provider, self.shape, self.region


class FlexShape(Struct, frozen=True, kw_only=True):
    """A shape whose OCPUs and memory are chosen, each with its own price.

    Attributes:
        usd_per_ocpu_hour, usd_per_gb_hour: on demand; `spot_factor` of that when it can be interrupted.
        vcpus_per_ocpu, cores_per_ocpu: threads and physical cores of an OCPU.
        max_ocpus, max_memory: GB, of one machine. min_gb, max_gb: GB an OCPU.
        ocpu_part, memory_part: numbers in the provider's price list.
    """

    provider: str
    shape: str
    usd_per_ocpu_hour: float
    usd_per_gb_hour: float
    vcpus_per_ocpu: float
    cores_per_ocpu: float
    max_ocpus: float
    max_memory: float
    min_gb: float
    max_gb: float
    spot_factor: float | None = None
    ocpu_part: str = ""
    memory_part: str = ""
    cpu: list[str] = []
    seen: str = ""
    source: str = ""
    origin: Origin = "builtin"

    @property
    def name(self) -> str:
        """How it is typed, without its sizes."""
        return f"{self.provider}:{self.shape}"

    def sized(self, ocpus: float, memory: float) -> Machine:
        """The machine with so many OCPUs and GB; whether it can be had says `why_not`."""
        price = ocpus * self.usd_per_ocpu_hour + memory * self.usd_per_gb_hour
        return Machine(
            provider=self.provider,
            region="all commercial" if self.provider == "oci" else "",
            shape=f"{self.shape}:{ocpus:g}:{memory:g}",
            vcpus=ocpus * self.vcpus_per_ocpu,
            cores=ocpus * self.cores_per_ocpu,
            ocpus=ocpus,
            cpu=self.cpu,
            memory=memory,
            usd_per_hour=price,
            spot_usd_per_hour=None if self.spot_factor is None else price * self.spot_factor,
            seen=self.seen,
            source=self.source,
            origin=self.origin,
        )

    def why_not(self, ocpus: float, memory: float) -> str:
        """Why it is not sold in this size; "" where it is."""
        if not (1 <= ocpus <= self.max_ocpus and ocpus == int(ocpus)):
            return f"it has 1 to {self.max_ocpus:g} whole OCPUs"
        least, most = max(1.0, ocpus * self.min_gb), min(self.max_memory, ocpus * self.max_gb)
        if not least <= memory <= most:
            return f"with {ocpus:g} OCPUs it has {least:g} to {most:g} GB"
        return ""
