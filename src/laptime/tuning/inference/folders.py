"""The folder of each recipe of a session: written when it is first wanted, once."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from laptime.kit.errors import LaptimeError
from laptime.launch import fresh_call
from laptime.tuning.inference.building import Origin, derive, write_folder
from laptime.tuning.inference.changes import artefact_of, is_as_exported
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting


def built(recipe: Recipe) -> Recipe:
    """A recipe without the control, which changes nothing."""
    return recipe.without("identity")


class _Artefact(NamedTuple):
    """What `building.build` has written, whose files folders share; `refused`: why it could not, or ""."""

    folder: Path
    form: str
    refused: str


class Folders:
    """Folders of the recipes of one model.

    Args:
        home: where they are written. surveyed: see `survey.survey`.
        calibration: file of `RecordedCalls` whose inputs builders may look at.

    Attributes:
        is_file: the target is an ONNX file: nothing of it is PyTorch's.
        interpreters: that other packages live in.
    """

    def __init__(
        self,
        home: Path,
        request: ModelRequest,
        surveyed: dict[str, Any],
        calibration: Path,
        accounting: TimeAccounting,
    ) -> None:
        self._home, self._request, self._accounting = home, request, accounting
        self.is_file = "onnx_file" in surveyed["facts"]
        self.interpreters = request.interpreters
        known = {
            name: surveyed[name] for name in ("batch", "names", "varies", "outputs", "device", "lengths")
        }
        self._origin = Origin(target=request.target, calibration=str(calibration), **known)
        self._folders: dict[Recipe, Path] = {}
        self._forms: dict[Recipe, str] = {}
        self._artefacts: dict[Recipe, _Artefact] = {}

    def adopt(self, recipe: Recipe, folder: Path, form: str) -> None:
        """Take a folder that was written before for that of a recipe."""
        self._folders[recipe], self._forms[recipe] = folder, form

    def is_isolated(self, recipe: Recipe) -> bool:
        """Whether its folder runs without laptime: all but the model as it is, in PyTorch."""
        return self.is_file or bool(built(recipe))

    def python(self, recipe: Recipe) -> str:
        """The interpreter that its folder is written and runs in; "": laptime's own."""
        return self.interpreters.of(recipe.names)

    def takes_arrays(self, recipe: Recipe) -> bool:
        """Whether its folder is called with arrays: the target is a file, or it runs where no PyTorch is."""
        return self.is_file or not self.interpreters.has_torch(self.python(recipe))

    def form(self, recipe: Recipe) -> str:
        """How a written folder runs the model: a name of `FORMS`."""
        return self._forms[built(recipe)]

    def outputs_of(self, recipe: Recipe) -> Path:
        """File of what a gated folder makes of the recorded inputs. Raises TrialFailed: see `written`."""
        return self._home / f"{self.written(recipe).name}-outputs.npz"

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Settings of a folder's tuned.py. Raises TrialFailed: see `written`."""
        settings: dict[str, Any] = json.loads((self.written(recipe) / "recipe.json").read_text())["settings"]
        return settings

    def written(self, recipe: Recipe) -> Path:
        """The folder of a recipe; written when it is first wanted.
        Raises TrialFailed: it cannot be written.
        """
        recipe = built(recipe)
        if recipe not in self._folders:
            folder = self._home / f"arm{len(self._folders)}"
            with self._accounting.spent_apart_on("build"):
                self._write(recipe, folder)
            self._folders[recipe] = folder
        return self._folders[recipe]

    def _write(self, recipe: Recipe, folder: Path) -> None:
        target, device = self._origin.target, self._origin.device
        if not self.is_isolated(recipe):
            folder.mkdir()
            write_folder(folder, "as_is", asdict(self._origin), target=target, recipe=[])
            return
        artefact = self._artefact(artefact_of(recipe))
        if artefact.refused:
            raise TrialFailed("refused", artefact.refused)
        derive(artefact.folder, artefact.form, folder, recipe=recipe, device=device)
        self._forms[recipe] = artefact.form

    def _artefact(self, changes: Recipe) -> _Artefact:
        """What these changes write, in a process of its own, once."""
        if changes not in self._artefacts:
            folder = self._home / f"artefact{len(self._artefacts)}"
            python, export = self.python(changes), self._home / "export" / "model.onnx"
            origin = {"origin": asdict(self._origin), "export": str(export)}
            arguments = {**origin, "recipe": changes.to_json(), "folder": str(folder)}
            made = {"refused": "", "form": ""}
            if python and is_as_exported(changes) and not self.is_file:
                # Its interpreter need not have PyTorch.
                made = self._called("export", origin)
                arguments["file"] = str(export)
            if not made["refused"]:
                made = self._called("build", arguments, python)
            self._artefacts[changes] = _Artefact(folder, made["form"], made["refused"])
        return self._artefacts[changes]

    def _called(self, name: str, arguments: dict[str, Any], python: str = "") -> dict[str, Any]:
        """What a function of `building` returns; that it ended is a refusal, too."""
        self._accounting.trials += 1
        function = f"laptime.tuning.inference.building:{name}"
        try:
            made: dict[str, Any] = fresh_call.call(
                function, arguments, timeout=self._request.timeout, python=python
            )
        except LaptimeError as error:
            return {"refused": f"{error.what}: {error.why}", "form": ""}
        return made
