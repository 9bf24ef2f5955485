"""The device is idle because the host launches too slowly.

Lies when: the profiler itself slows the host down, which it does most for many small operators (with stacks
and shapes most of all): compare with the untraced step of `laptime profile`.
Source: our own attribution of idle gaps; TraceML's 10 % and 20 %.
"""

from __future__ import annotations

from laptime.kit.units import percent, show
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._hidden import mistaken
from laptime.rules._reading import (
    MANY_LAUNCHES,
    NOTABLE,
    idle,
    idle_seconds,
    launches_per_step,
    often,
    share,
    times,
)


def rule(profile: Profile) -> Finding | None:
    """Tell what the host is doing in the gaps, and how many launches it makes."""
    gain = idle_seconds(profile, "host") - mistaken(profile)
    cause = idle(profile, "host")
    if cause is None or share(profile, gain) < NOTABLE:
        return None
    launched = launches_per_step(profile)
    launch_words = ""
    evidence: dict[str, object] = {"idle_s_per_step": gain, "host_is_in": dict(cause.operators[:5])}
    if launched and profile.launches is not None:
        launches = profile.launches
        launch_words = f"; it launches {often(launched)}, {show(launches.host_median_ns * 1e-9, 's')} each"
        number = profile.overview.totals.kernels or launches.launches
        if launches.tiny > 0.5 * number:
            launch_words += f", and {percent(launches.tiny / number)} of the kernels are shorter than 10 us"
        evidence |= {
            "launches_per_step": launched,
            "launch_delay_median_ns": launches.delay_median_ns,
            "queue_mean": launches.queue_mean,
        }
    launching = launched is None or launched >= MANY_LAUNCHES
    doing = [name for name, _ in cause.operators[:3]]
    during = f", mostly in {', '.join(doing)}" if doing else ""
    return finding(
        profile,
        "host-bound",
        f"the device waits for the host {times(profile, gain)}{during}{launch_words}",
        gain=gain,
        gain_is="idle time in which the host had neither data to wait for nor the device",
        evidence=evidence,
        rows=[f"operators/{name}" for name in doing],
        change='torch.compile(model, mode="reduce-overhead") (CUDA graphs), or a larger batch'
        if launching
        else "so few launches do not fill a step: see in the timeline what the host does between them",
        optimization="compile_reduce_overhead" if launching else "",
        stack=cause.stack,
    )
