"""Objects that exist before training are left out of garbage collection: torch alone has half a million.

Source: gc.freeze; a full collection visits every object that is tracked.
Lies when: frozen objects become garbage in cycles: they stay until the process ends."""

import gc
import time
from typing import Any

from laptime.tuning.optimization import LoopProfile, Optimization, Options


def look(hooks: Any) -> dict[str, float]:
    """Return how long a full collection takes in seconds; 0 if the script has switched it off."""
    if not gc.isenabled():
        return {"seconds": 0.0}
    gc.collect()
    began = time.perf_counter()
    gc.collect()
    return {"seconds": time.perf_counter() - began}


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A full collection every hundred steps, which is often: it waits until a quarter more objects are
    there. At most a fifth of the step."""
    return min(_seconds(loop_profile) / 100, 0.2 * loop_profile.step)


def apply(loop: Any, options: Options) -> None:
    """Frozen now: when the first trained model is called, or at once."""
    frozen: list[Any] = []

    def back() -> None:
        frozen.clear()
        gc.unfreeze()

    def freeze(model: Any) -> Any:
        if frozen:
            return None
        frozen.append(model)
        gc.collect()
        gc.freeze()
        return back

    loop.model(freeze)


def _seconds(loop_profile: LoopProfile) -> float:
    """Return the seconds of a full collection; 0 if it was not timed."""
    return float(loop_profile.detail("gc_freeze", "seconds", 0.0))


OPTIMIZATION = Optimization(
    title="existing objects left out of garbage collection",
    numerics="exact",
    saves=bound,
    live=True,
    prior=0.1,
    why_not=lambda loop_profile: (
        "" if _seconds(loop_profile) > 0 else "garbage collection is switched off, or was not timed"
    ),
    look=look,
    example={"seconds": 0.05},
    apply=apply,
    # One line at the start: behind the imports, whose objects are most of them.
    edit=lambda script, options: script.at_start("gc.freeze()", "import gc"),
)
