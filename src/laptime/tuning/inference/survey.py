"""The model before anything is changed, looked at in a process of its own: facts, inputs, outputs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from laptime.backends.torch.tensors import arrays
from laptime.kit import system_files
from laptime.measure.recorded_calls import other_batch, record
from laptime.tuning.inference.draft import Refused, by_position, opened, plain, structure_of

_INSTRUCTIONS = (
    *("amx_int8", "amx_bf16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx512f", "avx2"),
)
_KINDS = {"conv": "_ConvNd", "linear": "Linear", "batchnorm": "_BatchNorm", "attention": "MultiheadAttention"}


def survey(*, target: str, batch: int, calls: str, calibration: str) -> dict[str, Any]:
    """Look at a target.

    Args:
        batch: items in a call; 0: as the inputs were given. calls: file for its calls, the inputs of the
            measurement first, others and another batch size behind them. calibration: the same with the first
            call alone, which builders may look at.

    Returns:
        `refused`: why it cannot be tuned, or "". `batch`; `varies`, `outputs`: see `Draft`; `facts`,
        `threads`, `inputs` in words, `origin`, `libraries`, `instructions`.
    """
    import torch

    model = opened(target)
    batch = batch or model.own_batch() or 1
    module, inputs = by_position(model, batch)
    any_batch = model.batch_leads()
    varies = [bool(any_batch and each.ndim and each.shape[0] == batch) for each in inputs]

    def run(given: list[Any]) -> list[Any]:
        with torch.no_grad():
            return arrays(module(*map(torch.from_numpy, given)))

    sizes = [batch, *([other_batch(batch)] if any_batch else [])]
    recorded = record(run, lambda size: arrays(by_position(model, size)[1]), sizes)
    recorded.save(Path(calls))
    first = type(recorded)(recorded.calls[:1], recorded.undetermined, recorded.rounding)
    first.save(Path(calibration))
    try:
        with torch.no_grad():
            outputs = structure_of(plain(module(*inputs)))
    except Refused as refused:
        return {"refused": str(refused)}
    if recorded.undetermined:
        return {"refused": recorded.undetermined}
    told = model.inputs_of(batch)
    return {
        "refused": "",
        "batch": batch,
        "varies": varies,
        "outputs": outputs,
        "facts": sorted(_facts(module)),
        "threads": torch.get_num_threads(),
        "inputs": told["shapes"],
        "origin": told["origin"],
        "libraries": model.libraries(),
        "instructions": _instructions(),
    }


def _facts(module: Any) -> set[str]:
    """Facts of `tuning.loop_profile.FACT_SENTENCES`."""
    classes = {each.__name__ for part in module.modules() for each in type(part).__mro__}
    facts = {"cpu"} | {fact for fact, name in _KINDS.items() if name in classes}
    if shutil.which("g++") or shutil.which("clang++"):
        facts.add("gcc")
    if {"avx512_bf16", "amx_bf16"} & set(_instructions()):
        facts.add("bf16")
    return facts


def _instructions() -> list[str]:
    """What the CPU has for vectors, widest first."""
    flags = set(
        (system_files.text(Path("/proc/cpuinfo")) or "").partition("\nflags")[2].partition("\n")[0].split()
    )
    return [name for name in _INSTRUCTIONS if name in flags]
