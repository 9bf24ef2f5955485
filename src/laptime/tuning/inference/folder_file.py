"""The folder that is handed back, and its recipe.json.

tuned.py       `load()` gives a callable; imports no laptime
recipe.json    settings of tuned.py; what was changed, the gain, the machine, the runtime that alone runs it
README.md      how it is called: sizes, types, threads
calls.npz      recorded inputs, and what the model as it was made of them: `laptime verify` looks at them
outputs.npz    what tuned.py makes of these inputs, bit for bit
model.*        the artefact"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from laptime import targets
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import RecordedCalls
from laptime.records.tuning import Applied, Speedup, Tuning
from laptime.targets import file as file_target
from laptime.tuning.inference.building import SCHEMA
from laptime.tuning.inference.changes import form_of
from laptime.tuning.inference.draft import words_of
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup, cpus_of
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import environment_of
from laptime.tuning.session.verify import VerifyRequest

if TYPE_CHECKING:
    from laptime.tuning.inference.evaluator import ModelEvaluator


class Serve(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the folder was measured: `instances` processes at once."""

    instances: int = 1
    threads: int = 0  # of each; 0: the runtime's own choice
    batch: int = 0  # items in a call; 0: of the session
    cpus: list[list[int]] = []  # of each instance
    start: list[str] = []  # how each is started, if they are pinned


class FolderFile(Struct, frozen=True, kw_only=True):
    """recipe.json."""

    schema: str = SCHEMA
    target: str = ""  # that was tuned
    python: str = ""  # where its runtime is installed, see `Interpreters`; "": with laptime
    # inputs, metric: functions of the user's, "" for none
    inputs: str = ""
    metric: str = ""
    slo: str = ""
    max_memory: int | None = None
    recipe: list[Applied] = []  # the kept changes
    settings: dict[str, Any] = {}  # of tuned.py
    form: str = "exported"  # how it runs the model
    device: str = "cpu"
    numerics: str = "exact"  # class of the recipe
    # goal, batch: of the session
    goal: Literal["latency", "throughput", "memory", "cost"] = "throughput"
    batch: int = 1
    serve: Serve = Serve()  # instances, threads and batch of the final set
    speedup: Speedup | None = None  # measured again
    environment: dict[str, Any] = {}  # libraries and devices then
    run: str = ""  # its id
    needs: list[str] = []  # packages that tuned.py imports, at the versions that were compared


def say_inputs(settings: dict[str, Any], calls: RecordedCalls, device: str) -> str:
    """Types and sizes of the tensors that a folder takes, and who may call it. settings: of its tuned.py.
    calls: that it was compared on."""
    given = calls.calls[0].inputs
    sizes = settings.get("takes") or [list(array.shape) for array in given]
    shapes = [", ".join(str(n) if isinstance(n, int) else "any" for n in shape) for shape in sizes]
    both = zip(calls.types or [array.dtype for array in given], shapes, strict=True)
    tensors = ", ".join(f"{kind}[{shape}]" for kind, shape in both)
    return f"{tensors}; {'any thread may call it' if device == 'cpu' else 'one call at a time'}"


def readme(file: FolderFile, calls: RecordedCalls, types: list[str]) -> str:
    """Say how a folder is called, in a few lines."""
    threads = file.settings.get("threads") or "the runtime's own number of"
    return f"""# Tuned from {file.target}

    import tuned
    model = tuned.load()

- takes: {say_inputs(file.settings, calls, file.device)}
- any: any size but 0, the same for all inputs if the model needs that; all else raises ValueError
- gives: {words_of(file.settings.get("outputs"))}; {", ".join(types)}; anything but tensors is left out
- threads: {threads} threads in a call
- runs with: {", ".join(file.needs)}, as it was compared; another version: laptime verify recipe.json
"""


def at_version(names: Iterable[str]) -> list[str]:
    """Packages as they are installed here: torch==2.9."""
    return [f"{name}=={version(name)}" if find_spec(name) else name for name in names]


def hand_back(
    evaluator: ModelEvaluator,
    recipe: Recipe,
    place: Path,
    tuning: Tuning,
    *,
    run: str,
    setup: Setup | None = None,
) -> Path:
    """Copy the folder of a recipe; all of it or nothing. Raises UsageError: it cannot be written there."""
    source = evaluator.folders.ensure(recipe)
    file = msgspec.json.decode((source / "recipe.json").read_bytes(), type=FolderFile)
    serve = Serve()
    if setup is not None and setup.threads:
        cpus = [each for each in cpus_of(setup) if each]
        start = [f"taskset --cpu-list {','.join(map(str, each))} python SERVER.py" for each in cpus]
        serve = Serve(**asdict(setup), cpus=cpus, start=start)
    file = msgspec.structs.replace(
        file,
        target=_anywhere(file.target),
        python=evaluator.folders.interpreters.text(recipe.names),
        inputs=_anywhere(evaluator.request.inputs),
        metric=_anywhere(evaluator.request.metric),
        slo=evaluator.request.slo,
        max_memory=evaluator.request.max_memory,
        numerics=tuning.gate.numerics,
        form=evaluator.folders.form(recipe),
        device=evaluator.device,
        goal=evaluator.request.goal,
        batch=evaluator.batch,
        serve=serve,
        speedup=tuning.speedup,
        environment=environment_of(evaluator.environment()),
        run=run,
        needs=at_version(form_of(evaluator.folders.form(recipe)).packages),
    )
    place = place.expanduser().absolute()
    draft: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        shutil.copytree(source, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        evaluator.recorded.save(draft / "calls.npz")
        shutil.copyfile(evaluator.folders.outputs_of(recipe), draft / "outputs.npz")
        (draft / "recipe.json").write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n")
        text = readme(file, evaluator.recorded, evaluator.surveyed["types"] or [])
        (draft / "README.md").write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.rename(place)
    except OSError as error:
        raise UsageError(
            f"{place} cannot be written", why=error.strerror or str(error), next="--export another/FOLDER"
        ) from error
    finally:  # after Ctrl-C, too
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def _anywhere(target: str) -> str:
    """A target, or a function of the user's, as it can be named from any folder; "" stays."""
    recipe = targets.parse(target) if target else None
    if recipe is not None and recipe.file:
        return recipe.file
    return file_target.anywhere(target) if recipe is not None and recipe.kind == "file" else target


def is_one(path: Path) -> bool:
    """Whether a recipe file is that of a folder."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA


def read(path: Path) -> FolderFile:
    """A folder's recipe.json. Raises UsageError: it is damaged, or files beside it are missing."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=FolderFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{path} is not a recipe", why=str(error), next="name the recipe.json in the folder"
        ) from error
    missing = [name for name in ("tuned.py", "calls.npz") if not (path.parent / name).is_file()]
    if missing:
        raise UsageError(
            f"{path.parent} is incomplete",
            why=f"{', '.join(missing)} is missing",
            next="tune the model again with --export",
        )
    return file


def request_of(file: FolderFile, request: VerifyRequest) -> ModelRequest:
    """The options of the session that has handed the folder back, as far as they are asked again."""
    kept = ("target", "goal", "device", "inputs", "metric", "slo", "max_memory")
    return ModelRequest(
        **{name: getattr(file, name) for name in kept},
        **request.of_session,
        batch=0 if file.inputs else file.batch,
        python=request.python or file.python,
    )
