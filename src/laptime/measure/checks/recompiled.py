"""Did a compiler run while we measured?"""

from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.series import Label


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when samples of a settled level hold a compilation."""
    either, wanted = int(Label.RECOMPILED | Label.WARM_UP), int(Label.RECOMPILED)
    hit = sum(bits & either == wanted for series in case.series for bits in series.label)
    if not hit:
        return None
    return Check(
        "recompiled",
        "warn",
        f"a compiler ran during {hit} samples; they are excluded",
        "TORCH_LOGS=recompiles laptime bench ...   says why",
    )
