"""A model that changes are applied to, before it is written as a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.backends import torch as torch_backend
from laptime.backends.torch.tensors import is_tensor, map_leaves, tensors
from laptime.kit.errors import UsageError
from laptime.records.plan import Variant
from laptime.tuning.inference.arm_process import first_words, names_of

if TYPE_CHECKING:
    import torch

    from laptime.backends.torch.model import TorchModel
    from laptime.tuning.inference.samples import Sample


class NoDraft(Exception):
    """A change cannot be made to this model; the text says why."""


@dataclass
class Draft:
    """A model between the target and the folder."""

    module: Any  # takes its tensors by position; in eval mode
    # tensors of one call, at least two items if the batch size may vary: what is traced
    inputs: list[torch.Tensor]
    varies: list[bool]  # by input, whether its first dimension is the batch and may have any size
    # None: a tensor; names: a dict; []: a tuple, "" and None if it holds None. Their `types`: float32, int64
    outputs: list[str | None] | None
    calibration: Path  # file of `RecordedCalls` whose inputs may be looked at
    form: str = "exported"  # how it is written: a name of `FORMS` of a runtime
    settings: dict[str, Any] = field(default_factory=dict)  # of `tuned.py`, in recipe.json
    device: str = "cpu"  # where module and inputs lie, as torch names it: cpu, cuda:0
    file: Path | None = None  # of a target that is an ONNX file, which has no module; else None
    # file of the target's ONNX export that folders of one session share, there or not yet; None if a
    # change has made another module of it
    export: Path | None = None
    # by input, for each dimension the name of a size that may be another, else ""
    lengths: list[list[str]] = field(default_factory=list)

    def open_sizes(self, batch: Any, *, lengths: bool) -> list[dict[int, Any]]:
        """By input, the dimensions that may have another size: `batch` the first, names the lengths."""
        named = self.lengths if lengths and self.lengths else [[]] * len(self.varies)
        return [
            ({0: batch} if varies else {}) | {index: name for index, name in enumerate(names) if name}
            for varies, names in zip(self.varies, named, strict=True)
        ]


def load_target(target: str, sample: Sample | None = None, device: str = "cpu") -> TorchModel:
    """The target in PyTorch, in its own types, with weights drawn from the seed if it has none.
    sample: inputs of a call in place of the target's own. device: where model and inputs lie."""
    from laptime.backends.torch.loading import load

    variant = Variant(target=target, device=device, dtype="auto", options={"mode": "eval"})
    torch_backend.imports(variant)
    return load(variant, sample.inputs() if sample else None)


def by_position(model: TorchModel, batch: int) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """A loaded target as a module that takes its tensors by position, and inputs of this batch size.
    Raises UsageError: some are sparse."""
    from laptime.backends._onnx.exporting import call_of

    module, args, kwargs = call_of(model.workload(batch))
    given = tensors([*args, *kwargs.values()])
    if any(str(tensor.layout) != "torch.strided" for tensor in given):
        raise UsageError("it takes sparse tensors", why="no runtime's folder does", next="make them dense")
    inputs = [tensor.contiguous() for tensor in given]
    is_plain = not kwargs and all(map(is_tensor, args))
    # Packages of vision models, which give tensors, tuples or dicts.
    is_simple = type(module).__module__.partition(".")[0] in ("torch", "torchvision", "timm")
    return (module if is_plain and is_simple else _wrap(module, args, kwargs)), inputs


def _wrap(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.nn.Module:
    """The module around a structure of inputs; outputs that are mappings or dataclasses become dicts."""
    import torch

    class ByPosition(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *given: torch.Tensor) -> Any:
            rest = iter(given)
            positional, named = map_leaves(
                lambda leaf: next(rest) if is_tensor(leaf) else leaf, (list(args), kwargs)
            )
            return plain(self.module(*positional, **named))

    return ByPosition().eval()


def plain(output: Any) -> Any:
    """An output as a tensor, a tuple or a dict: what any runtime can give back."""
    if hasattr(output, "__dataclass_fields__") and not isinstance(output, Mapping):
        output = {name: getattr(output, name) for name in output.__dataclass_fields__}
    if isinstance(output, Mapping):
        return {str(key): value for key, value in output.items() if is_tensor(value)}
    return tuple(output) if isinstance(output, list) else output


def structure_of(output: Any) -> list[str | None] | None:
    """See `Draft.outputs`. Raises Refused: it is nested deeper than that."""
    if is_tensor(output):
        return None
    parts = list(output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else ())
    if not any(map(is_tensor, parts)) or not all(part is None or is_tensor(part) for part in parts):
        inside = " of " * bool(parts) + ", ".join(dict.fromkeys(type(part).__name__ for part in parts))
        form = f"{type(output).__name__}{inside}"
        raise NoDraft(f"its outputs are neither a tensor nor a flat tuple or dict of tensors: {form}")
    return names_of(output)


def restructure(parts: Sequence[Any], names: Sequence[str | None] | None) -> Any:
    """Tensors as an output of such names: one alone, a dict, a tuple; see `Draft.outputs`."""
    if names is None:
        return parts[0]
    if any(names):
        return dict(zip(names, parts, strict=True))
    rest = iter(parts)
    return tuple(each if each is None else next(rest) for each in names or [""] * len(parts))


def words_of(names: Sequence[str | None] | None) -> str:
    """Describe such an output."""
    if not names:
        return "a tensor" if names is None else "a tuple"
    told = ", ".join(str(each) if each != "" else "a tensor" for each in names)
    return f"a dict of {told}" if any(names) else f"a tuple of {told}"


def link(file: Path, place: Path) -> None:
    """The file at another place, too: no second copy if the disk allows it."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Whatever is raised inside is a refusal: what cannot be done, and why in one line."""
    try:
        yield
    except NoDraft:
        raise
    except Exception as error:
        raise NoDraft(f"{what}: {first_words(error)}") from error
