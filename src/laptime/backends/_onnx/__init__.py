"""Models that lie in a file, and PyTorch models exported into one: what ONNX Runtime and OpenVINO share.

inputs      what a file takes, sizes that it leaves open, their names, arrays to feed it
source      the file of a target: the user's own, or an export in the cache
exporting   the program that exports a PyTorch target, in a process of its own
graph       opset, parameters and FLOPs of an ONNX file
model       a file with a runtime around it, as the protocol asks"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from pathlib import Path
from typing import Any

from laptime.backends._shared import first, torch
from laptime.kit import FOLDER

EXPORTS_WITH = ("torch", "onnx", "onnxscript")  # packages that turn a target of PyTorch into a file
REVISION = 4  # goes up when the exporter writes something else for the same model
PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnxscript", "transformers")


def versions() -> dict[str, str]:
    """Return the versions of everything that has a part in an export, if it is installed."""
    return {name: number for package in PACKAGES for name, number in first([package]).items()}


def content(module: torch.nn.Module, inputs: list[torch.Tensor], export_settings: dict[str, Any]) -> str:
    """Hash over all that an export of this module depends on.

    Lies when: what the module computes depends on files or environment variables that are read while it runs.
    """
    digest = hashlib.sha256()
    digest.update(repr((REVISION, sorted(versions().items()), sorted(export_settings.items()))).encode())
    digest.update(repr(module).encode())
    for name, part in module.named_modules():
        plain = {key: value for key, value in vars(part).items() if isinstance(value, int | float | str)}
        digest.update(repr((name, type(part).__qualname__, sorted(plain.items()))).encode())
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        _add(digest, name, tensor)
    for tensor in inputs:
        _add(digest, "input", tensor)
    # Python files that were imported and belong neither to Python, nor to a package, nor to laptime.
    paths = sysconfig.get_paths()
    others = [Path(paths["stdlib"]), Path(paths["platstdlib"]), Path(FOLDER)]
    installed = {"site-packages", "dist-packages"}
    files = {Path(file) for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    for path in sorted(
        file
        for file in files
        if file.suffix == ".py"
        and not installed & {*file.parts}
        and not any(file.is_relative_to(one) for one in others)
        and file.is_file()
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _add(digest: Any, name: str, tensor: torch.Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
    if tensor.numel():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy())
