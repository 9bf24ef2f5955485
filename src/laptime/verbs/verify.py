"""`verify`: does an earlier result of `tune` still hold, here and now?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from laptime.records.plan import Origin
from laptime.records.run import Run
from laptime.verbs.tune import Heard


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """What `laptime verify` can be asked.

    Attributes:
        recipe: the file that `tune` has left, as `train.laptime.json`.
        budget: seconds at most.
        python: interpreter to run the script with; "": laptime's own.
        timeout: seconds that one trial may take at most.
        output_to_stderr: what the script prints goes there.
    """

    recipe: Path
    budget: float = 300.0
    python: str = ""
    timeout: float = 600.0
    output_to_stderr: bool = True
    quiet: bool = False
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)


def verify(request: VerifyRequest, heard: Callable[[Heard], None] = lambda told: None) -> Run:
    """Time the script with and without the recipe in new processes, and gate the recipe again.

    Returns:
        The run, of verb `verify`; its `tuning` has baseline, final, speedup and gate as they are now, and the
        earlier gain in its findings.

    Raises:
        UsageError: the file is no recipe, or its script is gone. UserCodeError: the script failed as it is.
    """
    raise NotImplementedError
