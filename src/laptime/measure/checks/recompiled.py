"""Did a compiler run while we measured?"""

from __future__ import annotations

from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.series import Label


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when samples of a settled level hold a compilation."""
    hit = sum(
        1
        for series in case.series
        for bits in series.label
        if Label.RECOMPILED in Label(bits) and Label.WARM_UP not in Label(bits)
    )
    if not hit:
        return None
    return Check(
        "recompiled",
        "warn",
        f"a compiler ran during {hit} samples; they are excluded",
        "TORCH_LOGS=recompiles laptime bench ...   says why",
    )
