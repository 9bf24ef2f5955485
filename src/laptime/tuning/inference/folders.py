"""The folder of each recipe of a session: written when it is first wanted, once."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from laptime.kit.errors import LaptimeError
from laptime.launch import fresh_call
from laptime.process.peer import Gone, Peer, Silent
from laptime.tuning.inference import arm_process
from laptime.tuning.inference.arm_process import LONG_CALL
from laptime.tuning.inference.building import Origin, derive, write_folder
from laptime.tuning.inference.changes import artefact_of, is_as_exported
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting


def strip(recipe: Recipe) -> Recipe:
    """A recipe without the control, which changes nothing."""
    return recipe.without("identity")


class _Artefact(NamedTuple):
    """The output of `building.build`, whose files folders share; `refused`: why it could not, or ""."""

    folder: Path
    form: str
    refused: str


@dataclass
class Folders:
    """Folders of the recipes of one model."""

    home: Path  # where they are written
    request: ModelRequest
    surveyed: dict[str, Any]  # see `survey.survey`
    calibration: Path  # file of `RecordedCalls` whose inputs builders may look at
    accounting: TimeAccounting

    def __post_init__(self) -> None:
        self.is_file = "onnx_file" in self.surveyed["facts"]  # nothing of it is PyTorch's
        self.interpreters = self.request.interpreters  # that other packages live in
        names = ("batch", "names", "varies", "outputs", "types", "device", "lengths")
        known = {name: self.surveyed[name] for name in names}
        self._origin = Origin(target=self.request.target, calibration=str(self.calibration), **known)
        self._folders: dict[Recipe, Path] = {}
        self._forms: dict[Recipe, str] = {}
        self._artefacts: dict[Recipe, _Artefact] = {}

    def adopt(self, recipe: Recipe, folder: Path, form: str) -> None:
        """Take a folder that was written before for that of a recipe."""
        self._folders[recipe], self._forms[recipe] = folder, form

    def is_isolated(self, recipe: Recipe) -> bool:
        """Whether its folder runs without laptime: all but the model as it is, in PyTorch."""
        return self.is_file or bool(strip(recipe))

    def python(self, recipe: Recipe) -> str:
        """The interpreter that its folder is written and runs in; "": laptime's own."""
        return self.interpreters.of(recipe.names)

    def takes_arrays(self, recipe: Recipe) -> bool:
        """Whether its folder is called with arrays: the target is a file, or it runs where no PyTorch is."""
        return self.is_file or not self.interpreters.has_torch(self.python(recipe))

    def form(self, recipe: Recipe) -> str:
        """Say how a written folder runs the model: a name of `FORMS`."""
        return self._forms[strip(recipe)]

    def outputs_of(self, recipe: Recipe) -> Path:
        """File of what a gated folder makes of the recorded inputs. Raises TrialFailed: see `ensure`."""
        return self.home / f"{self.ensure(recipe).name}-outputs.npz"

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Settings of a folder's tuned.py. Raises TrialFailed: see `ensure`."""
        settings: dict[str, Any] = json.loads((self.ensure(recipe) / "recipe.json").read_text())["settings"]
        return settings

    def ensure(self, recipe: Recipe) -> Path:
        """The folder of a recipe; written when it is first wanted.
        Raises TrialFailed: it cannot be written."""
        recipe = strip(recipe)
        if recipe not in self._folders:
            folder = self.home / f"arm{len(self._folders)}"
            with self.accounting.spent_apart_on("build"):
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
        """Build the artefact of these changes, in a process of its own, once."""
        if changes not in self._artefacts:
            folder = self.home / f"artefact{len(self._artefacts)}"
            python, export = self.python(changes), self.home / "export" / "model.onnx"
            origin = {"origin": asdict(self._origin), "export": str(export)}
            arguments = {**origin, "recipe": changes.to_json(), "folder": str(folder)}
            made = {"refused": "", "form": ""}
            if python and is_as_exported(changes) and not self.is_file:
                # Its interpreter need not have PyTorch.
                made = self._call("export", origin)
                arguments["file"] = str(export)
            if not made["refused"]:
                made = self._call("build", arguments, python)
            self._artefacts[changes] = _Artefact(folder, made["form"], made["refused"])
        return self._artefacts[changes]

    def _call(self, name: str, arguments: dict[str, Any], python: str = "") -> dict[str, Any]:
        """Call a function of `building`; if its process ends, that is a refusal, too."""
        self.accounting.trials += 1
        function = f"laptime.tuning.inference.building:{name}"
        try:
            made: dict[str, Any] = fresh_call.call(
                function, arguments, timeout=self.request.timeout, python=python
            )
        except LaptimeError as error:
            return {"refused": f"{error.what}: {error.why}", "form": ""}
        return made


# A folder loaded in a process of its own: `Arm` times its calls and asks for its outputs.


FIRST_CALLS = 3


def answer_of(peer: Peer, timeout: float, what: str) -> dict[str, Any]:
    """The next message of a process that runs a folder. Raises TrialFailed: it ends or tells nothing."""
    try:
        answer: dict[str, Any] = json.loads(peer.receive(timeout))
    except Silent:
        raise TrialFailed("hung", f"no answer within {timeout:.0f} s: {what}") from None
    except Gone as gone:
        why = gone.words.line or f"it {gone.words.how}"
        raise TrialFailed("crashed", f"{what}: {why[:300]}") from None
    return answer


@dataclass(kw_only=True, eq=False)
class Arm(AbstractContextManager["Arm"]):
    """One folder in one process, which has begun to load when it is made; close it.

    Several load at the same time: start all of them, then `wait` for each before anything is timed. Whatever
    needs it loaded raises TrialFailed: it does not load, a call fails, or its process ends."""

    folder: Path = field(kw_only=False)  # with tuned.py
    calls: Path = field(kw_only=False)  # file of `RecordedCalls`; their inputs are used
    isolated: bool  # `python -I`, so that nothing of this installation's surroundings helps it
    timeout: float  # seconds that any answer may take
    arrays: bool = False  # it is called with arrays, and needs no torch; else with tensors
    python: str = ""  # its interpreter; "": laptime's own
    cpus: Sequence[int] = ()  # on which it runs; none: on all
    device: str = "cpu"  # on which its inputs lie, and which its calls wait for
    peak: int = 0  # bytes of the process, at most so far; on a GPU those that it has of the device

    def __post_init__(self) -> None:
        # AOTInductor unpacks its package there, and a process that is killed does not clean up.
        self._scratch = tempfile.TemporaryDirectory(prefix="laptime-arm-", ignore_cleanup_errors=True)
        program = ["-I" if self.isolated else "-P", "-B", arm_process.__file__]
        program += [str(self.folder), str(self.calls), "arrays" if self.arrays else "tensors", self.device]
        self._began, self._loading, self._warming = time.monotonic(), 0.0, 0.0
        self._first: list[float] = []
        self._peer = Peer.start(
            [self.python or sys.executable, *program],
            cpus=self.cpus,
            cwd=self.folder if self.isolated else None,  # the model as it is may be named by a relative path
            env={**os.environ, "TMPDIR": self._scratch.name},
        )

    def wait(self) -> None:
        """Until it is loaded."""
        if not self._loading:
            self._answer("loading")
            self._loading = time.monotonic() - self._began

    @property
    def loading(self) -> float:
        """Seconds that loading takes."""
        self.wait()
        return self._loading

    @property
    def call(self) -> float:
        """Seconds of a call, about: the median of its first ones."""
        return median(self._first_calls())

    @property
    def ready(self) -> float:
        """Seconds that loading and the first calls take; the first one of some runtimes compiles."""
        self._first_calls()
        return self._loading + self._warming

    def _first_calls(self) -> list[float]:
        if not self._first:
            self.wait()
            began = time.monotonic()
            self._first = self.seconds(1)
            if self._first[0] < LONG_CALL:
                self._first += self.seconds(FIRST_CALLS - 1)
            self._warming = time.monotonic() - began
        return self._first

    def seconds(self, calls: int) -> list[float]:
        """Seconds of each of so many calls."""
        self._tell({"calls": calls})
        return self.finish()

    def begin(self, seconds: float) -> None:
        """Let it call for so many seconds; `finish` has to follow."""
        self._tell({"seconds": seconds})

    def finish(self) -> list[float]:
        """Seconds of each call since `begin`."""
        answer = self._answer("a call")
        self.peak = int(answer["peak"])
        made: list[float] = answer["seconds"]
        return made

    def outputs(self, path: Path) -> dict[str, Any]:
        """Write what it makes of all recorded inputs, see `arm_process.outputs`."""
        self._first_calls()
        self._tell({"outputs": str(path)})
        return self._answer("its outputs")

    def _tell(self, command: dict[str, Any]) -> None:
        self.wait()
        with suppress(Gone):  # `_answer` says why
            self._peer.send(json.dumps(command).encode(), self.timeout)

    def _answer(self, what: str) -> dict[str, Any]:
        return answer_of(self._peer, self.timeout, what)

    def close(self) -> None:
        """End the process."""
        self._peer.close()
        self._scratch.cleanup()

    def __exit__(self, *_: object) -> None:
        self.close()
