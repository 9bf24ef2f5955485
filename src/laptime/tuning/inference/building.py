"""A recipe becomes a folder that runs. `build` is called in a process of its own (`launch.fresh_call`)."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laptime import targets
from laptime.tuning.inference import handed_back
from laptime.tuning.inference.changes import artefact_of, form_of, is_as_exported, load
from laptime.tuning.inference.draft import Draft, NoDraft, by_position, link, load_target
from laptime.tuning.inference.runtimes.onnxruntime import write_onnx
from laptime.tuning.inference.samples import first_of
from laptime.tuning.optimization import Recipe

SCHEMA = "laptime.model_recipe/1"
RECIPE = "recipe.json"
WRITTEN = ("tuned.py", "runtime.py", RECIPE)  # files that every folder has for itself
TRACED = 2
"""Items in the inputs that a model is traced with at least: tracers take a size of 1 for a constant."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The start of a draft, as it was surveyed; see `Draft`."""

    target: str
    batch: int
    varies: list[bool]
    outputs: list[str | None] | None
    types: list[str]  # of the outputs
    calibration: str
    names: Sequence[str] | None  # keywords of its tensors if the inputs are a sample of the user's
    device: str = "cpu"
    lengths: list[list[str]] = field(default_factory=list)

    def draft(self, file: str = "") -> Draft:
        """The target before any change; `file`: its ONNX file, which then stands for it."""
        calibration = Path(self.calibration)
        if file := file or targets.parse(self.target).file:
            return Draft(None, [], self.varies, self.outputs, calibration, form="onnx", file=Path(file))
        traced = max(self.batch, TRACED) if any(self.varies) else self.batch
        sample = None if self.names is None else first_of(calibration, self.names)
        module, inputs = by_position(load_target(self.target, sample, self.device), traced)
        about: dict[str, Any] = {"device": self.device, "lengths": self.lengths}
        return Draft(module, inputs, self.varies, self.outputs, calibration, **about)


def build(
    *, origin: dict[str, Any], recipe: list[dict[str, Any]], folder: str, export: str, file: str = ""
) -> dict[str, str]:
    """Apply a recipe to an `Origin`, and write the folder.
    export: see `Draft`. file: that `export` has written, so that PyTorch need not be installed; else "".
    Returns `refused`: why not, or "". `form`."""
    begins, place = Origin(**origin), Path(folder)
    draft = begins.draft(file)
    draft.settings |= {"outputs": begins.outputs, "output_types": begins.types}
    if is_as_exported(Recipe.from_json(recipe)):
        draft.export = Path(export)
    if begins.device != "cpu":
        draft.settings["device"] = begins.device
    try:
        for change in Recipe.from_json(recipe):
            load(change.name).make(draft, change.options)
        place.mkdir(parents=True)
        form_of(draft.form).write(draft, place)
    except NoDraft as refused:
        shutil.rmtree(place, ignore_errors=True)
        return {"refused": str(refused), "form": draft.form}
    write_folder(place, find_tuned(draft), draft.settings, target=begins.target, recipe=recipe)
    return {"refused": "", "form": draft.form}


def export(*, origin: dict[str, Any], export: str) -> dict[str, str]:
    """Write an `Origin` as an ONNX file, if it is not there; see `build`."""
    place = Path(export)
    if not place.is_file():
        draft = Origin(**origin).draft()
        place.parent.mkdir(exist_ok=True)
        try:
            write_onnx(draft, place.parent)
        except NoDraft as refused:
            return {"refused": str(refused), "form": "onnx"}
    return {"refused": "", "form": "onnx"}


def derive(artefact: Path, form: str, folder: Path, *, recipe: Recipe, device: str) -> None:
    """Write the folder of a recipe from that of its artefact (`artefact_of`), whose files it shares. form: of
    the artefact. device: where it runs."""
    about = json.loads((artefact / RECIPE).read_text(encoding="utf-8"))
    draft = Draft(None, [], [], None, artefact, form=form, settings=about["settings"], device=device)
    there = artefact_of(recipe)
    for change in recipe:
        if change not in there:
            load(change.name).make(draft, change.options)
    folder.mkdir()
    for path in artefact.iterdir():
        if path.is_file() and path.name not in WRITTEN:
            link(path, folder / path.name)
    tuned = find_tuned(draft)
    write_folder(folder, tuned, draft.settings, target=about["target"], recipe=recipe.to_json())


def find_tuned(draft: Draft) -> str:
    """The file of `handed_back/` that loads a draft."""
    form = form_of(draft.form)
    return form.tuned if draft.device == "cpu" else form.on_cuda


def write_folder(
    folder: Path, tuned: str, settings: dict[str, Any], *, target: str, recipe: list[dict[str, Any]]
) -> None:
    """Writes tuned.py, a file of `handed_back/`, and recipe.json beside the artefact.

    With huge pages tuned.py asks for these, and what loads the model is runtime.py."""
    here = Path(handed_back.__path__[0])
    loads = "runtime.py" if settings.get("huge_pages") else "tuned.py"
    shutil.copyfile(here / f"{tuned}.py", folder / loads)
    if loads != "tuned.py":
        shutil.copyfile(here / "huge_pages.py", folder / "tuned.py")
    about = {"schema": SCHEMA, "target": target, "recipe": recipe, "settings": settings}
    (folder / RECIPE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
