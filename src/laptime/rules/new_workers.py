"""A loader starts and ends its workers anew for every epoch.

Silent without `laptime profile`, which times it, and where fewer than two epochs began among the timed steps.

Lies when: the script ends after a few epochs, or makes its loader anew on purpose.
Source: PyTorch's documentation of DataLoader, `persistent_workers`; 2 % of the loop is our own threshold."""

from laptime.kit.units import percent, show
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, slowdown, turn

NEEDS = frozenset({"!server"})
EPOCHS = 2


def rule(profile: Profile) -> Finding | None:
    """Say what an epoch's workers cost, of the untraced loop."""
    plain = profile.reconciled
    if plain is None or plain.pauses < EPOCHS or not plain.workers_ns:
        return None
    spent = plain.workers_ns * 1e-9 * slowdown(profile)
    part = spent / turn(profile)
    if part < WORTH:
        return None
    epoch = plain.workers_ns * 1e-9 * plain.untraced_steps / plain.pauses
    return finding(
        profile,
        f"the DataLoader starts and ends its workers in each of {plain.pauses} epochs: {show(epoch, 's')}"
        f" each time, {percent(part)} of the untraced loop",
        gain_is="starting and ending workers, and what first batches wait for them",
        evidence={
            "epochs": plain.pauses,
            "steps_per_epoch": plain.untraced_steps / plain.pauses,
            "s_per_epoch": epoch,
            "share_of_loop": part,
        },
        change="DataLoader(..., persistent_workers=True), made once before the loop over epochs",
        optimization="persistent_workers",
        reaches={"beside": spent},
    )
