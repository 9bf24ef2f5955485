"""The request of `laptime scale`."""

from typing import Annotated, Literal

from msgspec import Struct, field

from laptime.kit import typed
from laptime.kit.options import Option
from laptime.kit.units import seconds
from laptime.records.plan import Module, Name, Origin, Save

_WEAK = "weak: every rank keeps its batch. strong: loaders' batches are divided by the ranks."
_LEAST = 1e-9  # above zero


class ScaleRequest(Struct, frozen=True, kw_only=True):
    """The request of `laptime scale`."""

    program: str
    arguments: list[str] = []
    module: Module = False
    python: Annotated[str, Option("Python interpreter to run it with. [default: laptime's own]", "PATH")] = ""
    ranks: Annotated[
        list[int], Option("Numbers of ranks. [default: 1,2]", "N,...", read=typed.integers, least=1)
    ] = field(default_factory=lambda: [1, 2])
    scaling: Annotated[Literal["both", "weak", "strong"], Option(_WEAK)] = "both"
    jobs: Annotated[int, Option("Fresh jobs of each number of ranks.", least=1)] = 5
    steps: Annotated[int, Option("Steps to time in a job.", least=5)] = 50
    warmup: Annotated[int, Option("Steps of a job before the timing.", least=1)] = 10
    batch: Annotated[float | None, Option("Samples in a rank's step, if not counted.", "N", least=_LEAST)] = (
        None
    )
    target: Annotated[float | None, Option("Samples per second to reach.", "PER_SECOND", least=_LEAST)] = None
    usd_per_hour: Annotated[
        float | None, Option("Price of this machine, instead of a listed one.", "USD", least=_LEAST)
    ] = None
    timeout: Annotated[float, Option("Stop a job after this time.", "TIME", read=seconds)] = 1800.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = {}
