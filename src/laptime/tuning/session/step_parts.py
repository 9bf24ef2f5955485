"""The parts of a step by a profiler trace, of the script as it is and of the patched one."""

from __future__ import annotations

import shutil

from laptime.instrument.settings import Settings
from laptime.kit.errors import LaptimeError
from laptime.launch.script import execute
from laptime.records.profile import Profile
from laptime.tuning.session.trial_runner import START, TrialRunner
from laptime.verbs import trace
from laptime.verbs.profile import reconcile

STEPS = 1
"""Steps that are traced."""


def cost(runner: TrialRunner, step: float) -> float:
    """Seconds that one side takes, about: start, three steps that are not traced, and STEPS that are."""
    return (runner.accounting.first_step or START) + (3 + 2 * STEPS) * step + 5.0


def step_parts(runner: TrialRunner, sources: dict[str, str], timeout: float) -> dict[str, float]:
    """Seconds of a step by part, as `laptime trace` tells them; {} when there is no trace.

    Args:
        sources: files in place of the user's.
    """
    work = runner.folder / "profile"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    settings = Settings(
        folder=str(work), steps=STEPS, warmup=1, wait=1, timed=1, stack=False, memory=False, primitives=False,
        quiet=True, sources=sources,
    )  # fmt: skip
    try:
        outcome = execute(
            runner.program,
            settings=settings,
            timeout=timeout,
            output_to_stderr=True,
            output=work / "output",
            variables=runner.variables,
        )
        observed = outcome.observed[0] if outcome.observed else None
        if observed is None or not observed.traces:
            return {}
        profile = reconcile.reconciled(trace.analyse([work / observed.traces[-1]]), observed)
    except LaptimeError:
        return {}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return _seconds(profile, on_device=bool(observed.devices))


def _seconds(profile: Profile, *, on_device: bool) -> dict[str, float]:
    """On an accelerator the trace's categories; on the CPU, where they are one, phases of untraced steps."""
    if not on_device and profile.reconciled is not None:
        return {name: value * 1e-9 for name, value in profile.reconciled.parts_ns.items()}
    parts, total = profile.overview.breakdown, profile.overview.breakdown.total_ns
    if not total:
        return {}
    scale = profile.overview.step_ns * 1e-9 / total
    by_part = {name.removesuffix("_ns"): getattr(parts, name) * scale for name in parts.__struct_fields__}
    return {name: seconds for name, seconds in by_part.items() if seconds > 0}
