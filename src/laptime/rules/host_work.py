"""The host works for long without launching anything, and the device has nothing to do meanwhile.

Launching faster (compiling, graphs) does not shorten this; only the work itself can.

Lies when: the host waits for something that the trace does not show (a file, another process, a lock), or the
step is the first one.
Source: our own: 1 ms and 20 times the usual distance between two launches; 5 % of the step."""

import re

from laptime.kit.units import show
from laptime.rules import _facts
from laptime.rules import _reading as reading
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._facts import mistaken

NEEDS = frozenset({"!beginning"})
GENERAL = 1
_TELLS = re.compile(r"\.py\(\d+\): |^aten::|^<built-in")
"""Names of functions and operators: a range of the program's own may hold anything."""
_SERVERS = {
    "vLLM": "prepare the next step while the device works: vllm serve ... --async-scheduling",
    "SGLang": "prepare the next step while the device works: SGLang's overlap scheduler",
}


def rule(profile: Profile) -> Finding | None:
    """Name what the host was in, if the file tells it. What is launched slowly is `host_bound`'s."""
    row = next(iter(_facts.host_work(profile, "stretch")), None)
    few = row is None and _facts.launches_little(profile)
    if not few and (row is None or row.calls < profile.overview.steps / 2):
        return None  # once in a while: uneven_steps speaks of it
    server = profile.workload.server if profile.workload is not None else ""
    # What comes to light behind a wait is the wait's, but in a server, which reads its tokens in every step.
    late = reading.idle_seconds(profile, "host") - mistaken(profile)
    late += reading.idle_seconds(profile, "synchronisation") if server else 0.0
    most = reading.per_step(profile, row.idle_ns) if row is not None else _facts.launching_seconds(profile)
    gain, cause = max(0.0, min(late, most)), reading.idle(profile, "host")
    if reading.share(profile, gain) < (reading.NOTABLE if few else reading.DATA_WAIT):
        return None
    names = [name for name, _ in (row.names if row is not None else cause.operators if cause else [])[:3]]
    longest = f", up to {show(row.longest_ns * 1e-9, 's')} at a time" if row is not None else ""
    stack = row.stack if row is not None else cause.stack if cause is not None else []
    return finding(
        profile,
        f"the host works without launching anything{longest}, while the device has nothing to do:"
        f" {reading.times(profile, gain)}, in {', '.join(names) or 'Python'}",
        gain=gain,
        gain_is="idle time of the device while the host launches nothing for long",
        evidence={
            "names": names,
            "stretches": row.calls if row is not None else 0,
            "launches_per_step": reading.launches_per_step(profile),
            "idle_s_per_step": most,
        },
        rows=[f"operators/{name}" for name in names],
        change=_SERVERS.get(server, "") or _change(profile, names),
        next="" if stack else "with_stack=True names the lines of the program",
        stack=stack,
        reaches={"host": gain, "synchronisation": gain if server else 0.0},
    )


def _change(profile: Profile, names: list[str]) -> str:
    """The advice on the first of these; of one step alone, and of a range, how to find that out first."""
    if profile.overview.steps < reading.ENOUGH_STEPS:
        return "record several steps after a warm-up: one alone may be an exception"
    if not names or not _TELLS.search(names[0]):
        return "find out what it does there: with_stack=True names the lines of the program"
    return f"{names[0]}: do it in another thread or process, once in many steps, or while the device works"
