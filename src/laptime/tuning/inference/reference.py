"""The model as it is, ready to be called: what a survey looks at, and what all folders are held against."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from laptime.kit import system_files
from laptime.measure.recorded_calls import Array, Run
from laptime.records.environment import Device
from laptime.tuning.catalogue import allocator, huge_pages
from laptime.tuning.loop_profile import LoopProfile

_INSTRUCTIONS = (
    *("amx_int8", "amx_bf16", "amx_fp16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx_vnni"),
    *("avx512f", "avx2"),
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A target that takes arrays and gives arrays.

    Attributes:
        run: a call. inputs_of: inputs of a call of so many items.
        batch: items in a call. any_batch: it takes other numbers, too; varies: by input, see `Draft`.
        keywords: names of its inputs. outputs: see `Draft.outputs`; may raise `Refused`.
        facts: of `tuning.loop_profile.FACT_SENTENCES`. threads: in a call; 0: the runtime's own choice.
        words: its inputs in words. origin: where they come from. libraries: versions.
        device: where it runs, as torch names it. devices: what is known of it.
    """

    run: Run
    inputs_of: Callable[[int], list[Array]]
    batch: int
    any_batch: bool
    varies: Sequence[bool]
    keywords: Sequence[str]
    outputs: Callable[[], list[str] | None]
    facts: frozenset[str]
    threads: int
    words: str
    origin: str
    libraries: dict[str, str]
    device: str = "cpu"
    devices: Sequence[Device] = ()


def facts_of_machine() -> frozenset[str]:
    """What the machine has for any model."""
    facts = {"cpu"} | compilers()
    if {"avx512_bf16", "amx_bf16"} & set(instructions()):
        facts.add("bf16")
    if {"avx512_fp16", "amx_fp16"} & set(instructions()):
        facts.add("fp16")
    if not allocator.why_not(LoopProfile()):
        facts.add("glibc_malloc")
    if not huge_pages.why_not(LoopProfile()):
        facts.add("huge_pages_on_request")
    return frozenset(facts)


def compilers() -> set[str]:
    """`gcc` where there is a C++ compiler."""
    return {"gcc"} if shutil.which("g++") or shutil.which("clang++") else set()


def instructions() -> list[str]:
    """What the CPU has for vectors, widest first."""
    flags = set(
        (system_files.text(Path("/proc/cpuinfo")) or "").partition("\nflags")[2].partition("\n")[0].split()
    )
    return [name for name in _INSTRUCTIONS if name in flags]
