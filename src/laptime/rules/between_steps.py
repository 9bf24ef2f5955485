"""Work between two steps belongs to no step, and to no figure of a step.

Silent if steps touch, and for a loop that `laptime profile` timed for less than an epoch.

Lies when: the program waits between steps on purpose (a request that has not come), or the work between them
is its purpose (an evaluation, rollouts).
Source: our own: a tenth of the step. Ranges of NVTX around forward and backward leave loading outside."""

from laptime.kit.units import percent, show
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import NOTABLE, SERIOUS, share, slowdown, step

FRAMEWORKS = ("torch", "tensorflow")


def rule(profile: Profile) -> Finding | None:
    """Say how much time it is, and how to have it in the steps, or less of it."""
    if profile.reconciled is not None:
        return _find_untraced(profile)
    between = profile.overview.between_ns * 1e-9
    if share(profile, between) < NOTABLE or profile.overview.steps < 2:
        return None
    whole = between + step(profile)
    return finding(
        profile,
        f"{show(between, 's')} pass between one step and the next, {percent(between / whole)} of all"
        " the time: they belong to no step and to no figure of a step",
        loud="advice" if between > SERIOUS * step(profile) else "info",
        evidence={"between_s_per_step": between, "share_of_time": between / whole},
        change="mark the whole turn of the loop, loading included: profiler.step() once at its end, or"
        " the NVTX range around it",
    )


def _find_untraced(profile: Profile) -> Finding | None:
    """The finding of the untraced loop, without the part of `new_workers`."""
    plain = profile.reconciled
    assert plain is not None
    between = plain.outside_ns - max(0, plain.workers_ns - plain.workers_wait_ns)
    whole = plain.outside_ns + plain.untraced_ns
    if between <= 0 or between < NOTABLE * whole or plain.pauses < 1:
        return None
    evaluates = plain.evaluation_ns > between / 2
    time = show(between * plain.untraced_steps / plain.pauses * 1e-9, "s")
    what = (
        "mostly models that run apart from training, and their loaders" if evaluates else "no model runs then"
    )
    return finding(
        profile,
        f"{percent(between / whole)} of the untraced loop is between its steps, {time} after every"
        f" {plain.untraced_steps / plain.pauses:.3g}: {what}",
        gain_is="all time between steps: what is done half as often takes half of it",
        evidence={"between_ns_per_step": between, "evaluation_ns_per_step": plain.evaluation_ns},
        change="evaluate less often, in larger batches and under torch.inference_mode()"
        if evaluates
        else "save, log and set up less often, or in another thread",
        reaches={"beside": between * 1e-9 * slowdown(profile)},
    )
