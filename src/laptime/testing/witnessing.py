"""A training function witnessed under a recipe, in this process: what `python -m laptime.tuning.trial` does
with a script, without the process.

    base = Witnessed(folder, main)
    document = base.against("channels_last")        # gate.json, decoded
    gate = judge(["reassociated"], document)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from laptime.instrument.session import Stop
from laptime.tuning.trial.plan import Plan
from laptime.tuning.trial.points import Points
from laptime.tuning.trial.witness import Witness


def witness(
    main: Callable[[], None], folder: Path, changes: list[dict[str, Any]], **gate: Any
) -> dict[str, Any]:
    """Run `main` under these changes (`Recipe.to_json`) until enough was witnessed; its gate.json."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = Plan(folder=str(folder), mode="gate", base=changes, gate=gate)
    points = Points(plan)
    mode = Witness(plan, points)
    points.listen(mode)
    points.install()
    try:
        main()
    except Stop:
        pass
    finally:
        mode.finish()
        points.undo()
    found: dict[str, Any] = msgspec.json.decode((folder / "gate.json").read_bytes())
    return found


class Witnessed:
    """The baseline of a training function, and candidates against it.

    Attributes:
        twice: gate.json of the baseline's second run against its first.
        rounded: of the baseline with its activations rounded to bfloat16. perturbed: with their last bits
            rounded away.
    """

    def __init__(
        self, folder: Path, main: Callable[[], None], *, steps: int = 3, dropout: bool = True
    ) -> None:
        """Capture, run the baseline twice, and once in double precision without dropout where it is off."""
        self._folder, self._main = folder, main
        folder.mkdir(parents=True, exist_ok=True)
        self._given = {"batches": str(folder / "batches.pt"), "steps": steps, "dropout": dropout}
        base, exact = str(folder / "base.pt"), str(folder / "exact.pt")
        witness(main, folder / "base", [], write=base, **self._given)
        self.twice = witness(main, folder / "twice", [], compare=base, **self._given)
        witness(main, folder / "exact", [], write=exact, double=True, **self._given)
        self.rounded = witness(main, folder / "rounded", [], compare=base, rounds="bfloat16", **self._given)
        self.perturbed = witness(
            main, folder / "perturbed", [], compare=base, rounds="last_bits", **self._given
        )
        self._against = {"compare": base, "reference": exact, **self._given}

    def against(self, *names: str, **options: Any) -> dict[str, Any]:
        """A candidate's gate.json. `options` are those of the last change."""
        changes: list[dict[str, Any]] = [{"name": name, "options": {}} for name in names]
        if options:
            changes[-1]["options"] = options
        return witness(self._main, self._folder / "candidate", changes, **self._against)


def samples(
    folder: Path, main: Callable[[], None], changes: list[dict[str, Any]], most: int | bool = True
) -> dict[str, Any]:
    """gate.json of the loaders under these changes, against the baseline's."""
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / "samples.pt"
    if not base.exists():
        witness(main, folder / "samples-base", [], write=str(base), samples=most)
    return witness(main, folder / "samples", changes, compare=str(base), samples=most)
