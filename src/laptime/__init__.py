"""laptime: how fast a deep-learning model really runs, why, what that costs, and how to make it faster."""

import sys
from types import ModuleType
from typing import Any

from laptime.kit import __version__ as __version__

_PUBLIC = {
    "bench": "laptime.verbs.api",
    "compare": "laptime.verbs.api",
    "load": "laptime.verbs.api",
    "open_run": "laptime.verbs.api",
    "trace": "laptime.verbs.trace",
    "check": "laptime.verbs.check",
    "suite": "laptime.verbs.suite",
    "cost": "laptime.verbs.cost.run",
    "CostRequest": "laptime.verbs.cost.request",
    "doctor": "laptime.verbs.doctor:examine",
    "history": "laptime.verbs.history",
    "profile": "laptime.verbs.profile.block",
    "apply": "laptime.tuning.script.in_process",
    "tune": "laptime.tuning.script.in_process",
    **dict.fromkeys(("tune_model", "tune_server", "verify"), "laptime.tuning.api"),
    "trace_handler": "laptime.instrument.recorder",
    "load_ipython_extension": "laptime.apps.notebook",
    "Problem": "laptime.tuning.script.in_process",
    "Run": "laptime.verbs.public_run",
    "Event": "laptime.records.event",
    **dict.fromkeys(("LaptimeError", "Unavailable", "UsageError", "UserCodeError"), "laptime.kit.errors"),
}
"""Where each public name is, `MODULE:NAME` under another name; `__init__.pyi` has their types."""

__all__ = sorted(_PUBLIC)


class _Package(ModuleType):
    """A room with a public name does not hide it: `laptime.trace` stays the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Load public names on first use: `import laptime` itself stays a few milliseconds."""
    if name in _PUBLIC:
        from importlib import import_module

        module, _, own = _PUBLIC[name].partition(":")
        return getattr(import_module(module), own or name)
    raise AttributeError(f"module 'laptime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
