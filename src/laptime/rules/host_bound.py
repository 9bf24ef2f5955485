"""The device is idle because the host launches too slowly.

Lies when: the profiler itself slows the host down, which it does most for many small operators (with stacks
and shapes most of all): compare with the untraced step of `laptime profile`.
The gain leaves out what launching faster does not shorten: compiling, collecting garbage, preparing samples,
and stretches of the host's work in which nothing is launched.
Source: our own attribution of idle gaps; TraceML's 10 % and 20 %."""

from laptime.kit.units import percent, show
from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._facts import mistaken
from laptime.rules._reading import NOTABLE, idle, launches_per_step, often, share, times

NEEDS = frozenset({"!beginning"})
GENERAL = 1
_ASYNCHRONOUS = {
    "vLLM": "vllm serve ... --async-scheduling",
    "SGLang": "SGLang's overlap scheduler (no --disable-overlap-schedule)",
}


def rule(profile: Profile) -> Finding | None:
    """Tell what the host is doing in the gaps, and how many launches it makes."""
    gain = _facts.launching_seconds(profile) - mistaken(profile)
    cause = idle(profile, "host")
    if cause is None or share(profile, gain) < NOTABLE or _facts.launches_little(profile):
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
    change, optimization = _change(profile)
    doing = [name for name, _ in cause.operators[:3]]
    during = f", mostly in {', '.join(doing)}" if doing else ""
    return finding(
        profile,
        f"the device waits for the host {times(profile, gain)}{during}{launch_words}",
        gain_is="idle time in which the host had neither data to wait for nor the device",
        evidence=evidence,
        rows=[f"operators/{name}" for name in doing],
        change=change,
        optimization=optimization,
        stack=cause.stack,
        reaches={"host": gain},
    )


def _change(profile: Profile) -> tuple[str, str]:
    """Return the change that takes launching off the host here, and the optimization that makes it."""
    facts = _facts.of(profile)
    server = profile.workload.server if profile.workload is not None else ""
    if "graphs" in facts:
        prepare = _ASYNCHRONOUS.get(server, "prepare the next step while the device works")
        return f"launch less beside the graphs; {prepare}", ""
    if server:
        return (
            "let the server replay CUDA graphs: vLLM without --enforce-eager, SGLang without"
            " --disable-cuda-graph",
            "",
        )
    if "compiled" in facts:
        return 'CUDA graphs for what is compiled already: mode="reduce-overhead"', ""
    batch = ", or a larger batch" if profile.workload is None or profile.workload.kind == "training" else ""
    return f'torch.compile(model, mode="reduce-overhead") (CUDA graphs){batch}', "compile_reduce_overhead"
