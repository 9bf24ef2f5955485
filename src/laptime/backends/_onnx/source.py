"""Where a model comes from: a file of the user's, or a PyTorch target exported on the way."""

import fcntl
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from laptime.backends._onnx import EXPORTS_WITH, REVISION, versions
from laptime.backends._onnx.inputs import Array
from laptime.kit import errors
from laptime.kit.errors import Died, LaptimeError, Unavailable, UsageError
from laptime.kit.extras import install
from laptime.measure.recorded_calls import RecordedCalls
from laptime.records.plan import Variant
from laptime.store import cache
from laptime.targets import Recipe, parse

OPSET = 20
"""Of exports: what torch.onnx writes by default since PyTorch 2.9; runtimes of 2024 and later read it."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model file and what is known about it."""

    path: Path  # the file
    # for the record: source, hash; of an export opset, versions, seconds, whether it was there
    facts: dict[str, Any]
    batch: int | None = None  # the one batch size that it can do; None: whatever its shapes leave open
    traced: int | None = None  # batch of the sample
    # items in the inputs as they were given; None if nothing tells; 1 if inputs are made
    own: int | None = 1
    batch_is: str = ""  # how that is known
    # what PyTorch ran on, in the order of the file's inputs; None for a file
    inputs: list[Array] | None = None
    recorded: RecordedCalls | None = None  # what PyTorch made of these and other inputs; None for a file
    counts: dict[str, Any] | None = None  # what PyTorch counted in a call of `traced` items; None for a file
    seconds: float | None = None  # what exporting took, or finding it in the cache; None for a file


def find(variant: Variant, *, batch: int | None = None) -> Source:
    """The file of a variant's target; PyTorch targets are exported into the cache first. batch: the one batch
    size to export for; None: any.
    Raises TargetError, UsageError: there is no such target, or it is neither a file nor one of PyTorch.
    Unavailable, UserCodeError: what exporting needs is not installed, or PyTorch cannot export it."""
    recipe = parse(variant.target)
    facts = {"source": recipe.source, "sha256": recipe.sha256}
    if recipe.file:
        return Source(path=Path(recipe.file), facts={**facts, "is_file": True})
    _check(recipe)
    started = time.perf_counter()
    text = str(variant.options.get("opset", OPSET))
    if not text.isdecimal() or int(text) < 18:
        why = "PyTorch's exporter writes opset 18 and later"
        raise UsageError(f"opset {text} cannot be exported", why=why, next=f"--option opset={OPSET}")
    opset = int(text)
    folder, was_there = _export(variant, recipe, opset=opset, batch=batch)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    recorded = RecordedCalls.load(folder / "calls.npz")
    told = {
        "exporter": f"torch.onnx (torch.export) of PyTorch {about['versions'].get('torch')}",
        "opset": about["opset"],
        "seconds": about["seconds"],
        "cached": was_there,
        "batch": about["batch"] or "any",
        "folder": folder.name,
        "versions": about["versions"],
    }
    return Source(
        path=folder / "model.onnx",
        facts={**facts, "export": told, "origin": about["origin"]},
        batch=about["batch"],
        traced=about["traced"],
        own=about["own"],
        batch_is=about["batch_is"],
        inputs=recorded.calls[0].inputs,
        recorded=recorded,
        counts=about["counts"],
        seconds=time.perf_counter() - started,
    )


def _check(recipe: Recipe) -> None:
    if recipe.backend != "torch":
        raise UsageError(
            f"{recipe.target} cannot be exported to ONNX here",
            why=f"it is a target of the {recipe.backend} backend; only PyTorch's are exported on the way",
            next="name a PyTorch target or an .onnx file",
        )
    missing = [package for package in EXPORTS_WITH if find_spec(package) is None]
    if missing:
        raise Unavailable(
            f"{recipe.target} cannot be exported: {' and '.join(missing)} not installed",
            why="PyTorch targets are exported with torch.onnx, which needs torch, onnx and onnxscript",
            next=install("torch", "onnx"),
        )


def _export(variant: Variant, recipe: Recipe, *, opset: int, batch: int | None) -> tuple[Path, bool]:
    """The folder of the export, and whether it was there before.

    A model of a package is known by the package's version and the seed, and found without PyTorch. Code of
    the user's is loaded to tell whether it is still the same (see `content`); only exporting is saved then.
    """
    key_parts = [REVISION, sorted(versions().items()), recipe.target, recipe.source]
    key = hashlib.sha256(repr([*key_parts, variant.dtype, variant.seed, opset, batch]).encode()).hexdigest()[
        :24
    ]
    if recipe.packages and (old := _earlier_export(key)):
        return old, True
    folder = cache.folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            root = folder.resolve()
    except OSError:
        root = Path(tempfile.mkdtemp(prefix="laptime-onnx-"))
    with (root / f".onnx-{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # workers of several batch sizes load the same model together
        if recipe.packages and (old := _earlier_export(key)):  # exported by another process while we waited
            return old, True
        before = {entry.name for entry in root.glob("onnx-*")}
        folder = _in_own_process(variant, opset=opset, batch=batch, root=root)
        cache.put("onnx", key, {"folder": str(folder), "target": recipe.target})
    return folder, folder.name in before


def _earlier_export(key: str) -> Path | None:
    """The folder of an export that was made before; None when there is none, or no longer."""
    noted = cache.get("onnx", key)
    folder = Path(str(noted["folder"])) if noted and noted.get("folder") else None
    return folder if folder is not None and (folder / "about.json").is_file() else None


def _in_own_process(variant: Variant, *, opset: int, batch: int | None, root: Path) -> Path:
    """Run `exporting`; it ends with us, being in our process group."""
    with tempfile.TemporaryDirectory(prefix="laptime-export-") as scratch:
        answer = Path(scratch) / "answer.json"
        request = {
            "variant": msgspec.to_builtins(variant),
            "opset": opset,
            "batch": batch,
            "root": str(root),
            "answer": str(answer),
        }
        done = subprocess.run(
            [sys.executable, "-m", "laptime.backends._onnx.exporting"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
        )
        if not answer.is_file():
            last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            raise Died(
                f"the process that exported {variant.target} ended without an answer",
                why=last[:300],
                next=f"laptime bench {variant.target}   runs it in PyTorch, without exporting",
            )
        reply = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in reply:
        kind: type[LaptimeError] = getattr(errors, reply["error"], LaptimeError)
        raise kind(reply["what"], why=reply["why"], next=reply["next"])
    return Path(reply["folder"])
