"""laptime: how fast a deep-learning model really runs, why, what that costs, and how to make it faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laptime.kit import __version__ as __version__

if TYPE_CHECKING:
    from laptime.apps.notebook import load_ipython_extension as load_ipython_extension
    from laptime.instrument.recorder import trace_handler as trace_handler
    from laptime.tuning.script.in_process import Problem as Problem
    from laptime.tuning.script.in_process import apply as apply
    from laptime.tuning.script.in_process import tune as tune
    from laptime.verbs.api import bench as bench
    from laptime.verbs.api import compare as compare
    from laptime.verbs.api import load as load
    from laptime.verbs.profile.block import profile as profile

_PUBLIC = {
    "apply": "laptime.tuning.script.in_process",
    "bench": "laptime.verbs.api",
    "compare": "laptime.verbs.api",
    "load": "laptime.verbs.api",
    "load_ipython_extension": "laptime.apps.notebook",
    "profile": "laptime.verbs.profile.block",
    "tune": "laptime.tuning.script.in_process",
    "Problem": "laptime.tuning.script.in_process",
    "trace_handler": "laptime.instrument.recorder",
    "Run": "laptime.verbs.public_run",
}

__all__ = ["Problem", "Run", "apply", "bench", "compare", "load", "profile", "trace_handler", "tune"]


def __getattr__(name: str) -> Any:
    """Load public names on first use: `import laptime` itself stays a few milliseconds."""
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'laptime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
