"""nn.DataParallel drives several devices from one process.

Lies when: the model is wrapped but only one device has memory enough to matter.
Source: the TensorBoard plugin's rule; PyTorch's own advice."""

from laptime.rules._evidence import Finding, Pool, Profile, finding
from laptime.rules._reading import idle_seconds, marks, per_step

NEEDS = frozenset({"training"})


def rule(profile: Profile) -> Finding | None:
    """Fire when DataParallel.forward is seen and more than one device works."""
    forwards = marks(profile, r"DataParallel\.forward$")
    devices = len(profile.overview.devices)
    if not forwards or devices < 2:
        return None
    reaches: dict[Pool, float] = {cause: idle_seconds(profile, cause) for cause in ("host", "copy")}
    return finding(
        profile,
        f"nn.DataParallel spreads each batch over {devices} devices from one Python process",
        gain_is="idle time of the devices while the one process launches and copies",
        loud="advice",
        evidence={
            "devices": devices,
            "forward_s_per_step": per_step(profile, sum(row.host_ns for row in forwards)),
        },
        change="torch.nn.parallel.DistributedDataParallel, one process a device: torchrun ...",
        reaches=reaches,
    )
