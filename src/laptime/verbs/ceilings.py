"""What the device of a profile can do at most: the maker's figures of an accelerator, by its name; of this
machine's cores where the program ran here. The CPU of a trace from elsewhere is not known."""

from __future__ import annotations

from msgspec import structs

from laptime.analysis import roofline
from laptime.probes.cpu import cpu
from laptime.probes.peaks import core_ceiling, cpu_peak, device_peak
from laptime.records.environment import Environment
from laptime.records.overview import Ceilings
from laptime.records.profile import Profile


def beside_ceilings(profile: Profile, here: Environment | None = None) -> Profile:
    """The profile with its roofline beside the ceilings. here: this machine, where the program ran on it."""
    if profile.roofline is None or profile.roofline.missing:
        return profile
    ceilings = _of_accelerator(profile) if profile.accelerators else _of_cores(here)
    return structs.replace(profile, roofline=roofline.beside(profile.roofline, ceilings))


def _of_accelerator(profile: Profile) -> Ceilings | None:
    """None where it is not in the table, or several kinds worked."""
    kinds = {(each.name, each.memory) for each in profile.accelerators}
    name, memory = kinds.pop()
    peak = device_peak(name, memory=memory) if name and not kinds else None
    if peak is None:
        return None
    return Ceilings(device=peak.name, flops=peak.flops, bandwidth=peak.bandwidth, source=peak.note)


def _of_cores(here: Environment | None) -> Ceilings | None:
    """All usable cores, and the memory of a whole socket, which a part of its cores may not reach."""
    peak = cpu_peak(cpu(), usable=here.usable_cpus) if here is not None else None
    core = core_ceiling([peak.name]) if peak is not None else None
    if peak is None or core is None:
        return None
    return Ceilings(device=peak.name, flops=peak.flops, bandwidth=core.bandwidth, source=peak.note)
