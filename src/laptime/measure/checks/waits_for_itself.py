"""Do the program's own threads wait for each other's CPUs?"""

from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.measure.labels import WAITED_SHARE
from laptime.records.series import Label


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it if most samples waited for a CPU that no other program had: the program's own time."""
    for latency in case.series:
        if latency.metric.tag != "latency" or not latency.samples:
            continue
        # The share of the samples that waited but were not labelled as disturbed.
        waited = case.find("disturbance/waited", latency.regime)
        if waited is None or len(waited.samples) != len(latency.samples):
            share = 0.0
        else:
            label = latency.label or [0] * len(latency.samples)
            rows = zip(waited.samples, latency.samples, label, strict=True)
            seconds_waited = sum(
                1
                for lost, took, bits in rows
                if lost > WAITED_SHARE * took and Label.WAITED not in Label(bits)
            )
            share = seconds_waited / len(latency.samples)
        if share > 0.5:
            return Check(
                "waits_for_itself",
                "note",
                f"{share:.0%} of the samples waited for a CPU that no other program used: it has "
                "more busy threads than there are CPUs, and that is part of its time",
                "--threads 1,2   measures fewer of them beside it",
            )
    return None
