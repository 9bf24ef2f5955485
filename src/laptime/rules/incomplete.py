"""Work of the device is missing in the file, so its idle time and use mean little.

A profiler writes the host's operators first and the device's work in an order of its own: a file that breaks
off, or buffers that were full, leave steps whose kernels are not there. No advice with a gain is given then.

Lies when: steps differ that much by nature (evaluation every other step), and the file is cut elsewhere.
Source: a trace of an A100 cut in its middle; half and a tenth are our own thresholds."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import missing

FRAMEWORKS = ("torch", "tensorflow")


def rule(profile: Profile) -> Finding | None:
    """Say what is missing."""
    what = missing(profile)
    if not what:
        return None
    lost = profile.launches.lost if profile.launches else 0
    return finding(
        profile,
        f"{what}: how long the device worked is not known",
        loud="advice",
        evidence={"lost_launches": lost, "truncated": any(file.truncated for file in profile.files)},
        change="record it again, with fewer steps, and let the program end the profiler",
    )
