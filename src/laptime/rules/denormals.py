"""A CPU computes with numbers below float32's normal range, up to a hundred times slower than with others.

Lies when: no product reads the denormal numbers, as in a moment of an optimizer.
Source: torch.set_flush_denormal; a hundred times and the share from which it matters are our own
(`tuning.catalogue.flush_denormal`)."""

from laptime.kit.units import percent
from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import MATRIX, NOTABLE, operators, per_step, share, takes, times

MATTERS = 1e-4
SLOWER = 100.0


def rule(profile: Profile) -> Finding | None:
    """Fire if `laptime profile` has counted such numbers, and products and convolutions take the step."""
    part = float(profile.facts.get("denormal", 0.0))
    rows = sorted(operators(profile, MATRIX), key=lambda row: -row.host_self_ns)
    spent = per_step(profile, sum(row.host_self_ns for row in rows))
    if profile.overview.devices or part < MATTERS or share(profile, spent) < NOTABLE:
        return None
    slow = SLOWER * part / (SLOWER * part + 1 - part)
    return finding(
        profile,
        f"{percent(part)} of the numbers in parameters, gradients and optimizers are denormal; with these a"
        f" CPU is up to {SLOWER:g} times slower: {takes([row.name for row in rows])} {times(profile, spent)}",
        gain_is=f"the part of these operators that computes with them, {SLOWER:g} times as fast",
        limits=("cpu",),
        reaches={"compute": spent * slow * (1 - 1 / SLOWER)},
        evidence={"denormal_share": part},
        rows=[f"operators/{row.id}" for row in rows[:4]],
        change="torch.set_flush_denormal(True) before the first step",
        optimization="flush_denormal",
    )
