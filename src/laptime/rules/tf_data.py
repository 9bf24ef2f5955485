"""The step of a TensorFlow program waits for its tf.data pipeline.

Lies when: the pipeline was still filling its buffers (first steps of an epoch), or the disk cache was cold:
then later steps wait less. Parallel stages do not help when all cores are busy already.
Source: the TensorBoard plugin's 5 % of the mean step, as for a DataLoader."""

import re

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import DATA_WAIT, share, step, times

FRAMEWORKS = ("tensorflow",)
_STAGE = re.compile(r"^Iterator::")


def rule(profile: Profile) -> Finding | None:
    """Say how long each step waits, and which stages there are; those that run ahead are named."""
    waited = profile.overview.breakdown.dataloader_ns * 1e-9
    if profile.facts.get("framework") != "tensorflow" or step(profile) <= 0:
        return None
    if share(profile, waited) <= DATA_WAIT:
        return None
    stages = [row.name for row in profile.annotations if _STAGE.match(row.name)]
    ahead = any("::Prefetch" in name for name in stages)
    how = ", although it prefetches" if ahead else " and nothing prefetches" if stages else ""
    return finding(
        profile,
        f"the tf.data pipeline is waited for {times(profile, waited)}{how}",
        gain_is="wait for the next element",
        evidence={"wait_s_per_step": waited, "share": share(profile, waited), "stages": stages[:8]},
        change="dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE), or .cache(): see the stages"
        if ahead
        else "dataset.prefetch(tf.data.AUTOTUNE) as the last stage",
        reaches={"data": waited},
    )
