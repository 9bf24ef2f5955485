"""An ONNX file as it is: run by ONNX Runtime with its defaults."""

from __future__ import annotations

from laptime.backends import onnxruntime as backend
from laptime.backends._onnx import inputs as of_files
from laptime.backends._onnx.model import FileModel
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import Array
from laptime.records.plan import Variant
from laptime.tuning.inference.reference import Reference, facts_of_machine
from laptime.tuning.inference.samples import Sample

FACTS = frozenset({"onnx_file", "on_onnxruntime", "other_runtime"})


def reference(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The file, loaded.

    Args:
        batch: items in a call; 0: 1, or what the file is made for. sample: inputs in place of random ones.
        device: "cpu" or "auto", which is the CPU: an accelerator is refused before (`request.check`).

    Raises:
        LaptimeError: it cannot be loaded, or leaves sizes open that only samples can tell.
    """
    model = backend.open(Variant(target=target, device="cpu", dtype="auto"))
    takes = model.takes()
    any_batch = any(each.dims and isinstance(each.dims[0], str) for each in takes)
    given = sample.ordered([each.name for each in takes]).arrays if sample else None
    batch = batch or (_items(given, 1) if given else model.own_batch()) or 1

    def inputs_of(size: int) -> list[Array]:
        return of_files.rebatched(given, batch, size) if given else _random(model, size)

    first = inputs_of(batch)
    names = model.gives()
    shapes = [f"{each.name}: {of_files.words(array)}" for each, array in zip(takes, first, strict=True)]
    return Reference(
        run=model.outputs,
        inputs_of=inputs_of,
        batch=batch,
        any_batch=any_batch,
        varies=[bool(each.dims) and isinstance(each.dims[0], str) for each in takes],
        keywords=[each.name for each in takes],
        outputs=lambda: None if len(names) == 1 else names,
        facts=facts_of_machine() | FACTS,
        threads=0,
        words=", ".join(shapes),
        origin="random: floats from N(0, 1), whole numbers 0 and 1",
        libraries=model.libraries(),
    )


def _items(given: list[Array], default: int) -> int:
    return next((array.shape[0] for array in given if array.ndim), default)


def _random(model: FileModel, size: int) -> list[Array]:
    try:
        return model.input_arrays(size)
    except UsageError as error:
        if not error.next.startswith("--shape"):
            raise
        raise UsageError(
            error.what, why=error.why, next="--inputs data.py:samples   gives inputs of the sizes that count"
        ) from error
