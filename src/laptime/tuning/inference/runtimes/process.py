"""Settings of the process that runs the model, whatever the runtime; and the control.

What `allocator` and `huge_pages` gain, and why, stands in `tuning.catalogue`."""

from __future__ import annotations

from laptime.tuning.catalogue.allocator import KEPT
from laptime.tuning.catalogue.huge_pages import VARIABLE
from laptime.tuning.inference.changes import ModelChange
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options


def _set_threads(draft: Draft, options: Options) -> None:
    draft.settings["threads"] = int(options["value"])
    draft.settings.setdefault("properties", {})["INFERENCE_NUM_THREADS"] = int(options["value"])


CHANGES = [
    # The model as it is, once more: the control of all races.
    # Lies when: never; that is its use.
    # Source: decision 0010.
    ModelChange(name="identity", title="the model as it is", numerics="exact", saves=0.0, builds=0.0),
    # The C library keeps freed memory: the next call's activations get pages that are mapped already.
    # ONNX Runtime and OpenVINO plan their memory ahead, and have nothing to gain.
    # Lies when: another allocator is preloaded where the folder runs; then nothing changes.
    # Source: mallopt(3).
    ModelChange.row(
        "allocator",
        "freed memory is kept for the next call",
        "cpu glibc_malloc !other_runtime",
        (0.3, 0.2, 8),
        numerics="exact",
        settings_only=True,
        settings={"malloc": [list(each) for each in KEPT.items()]},
        goals=("latency", "throughput", "cost"),
    ),
    # What the model keeps in memory lies on pages of 2 MiB: fewer misses of the address cache. Weights
    # and buffers of any runtime are moved to such pages after the first call of a shape; tensors of
    # PyTorch that are made later are asked for on them.
    # Lies when: memory is fragmented, then the kernel finds no room; or the server has made a tensor
    # before it calls `load()`: PyTorch reads its variable once.
    # Source: madvise(2), MADV_COLLAPSE (Linux 6.1); under an older kernel its khugepaged does the same in
    # time.
    ModelChange.row(
        "huge_pages",
        "huge pages under weights and buffers",
        "cpu huge_pages_on_request",
        (0.2, 0.15, 8),
        numerics="exact",
        settings_only=True,
        settings={"huge_pages": True, "environment": {VARIABLE: "1"}},
        goals=("latency", "throughput", "cost"),
    ),
    # Lies when: the machine that serves has other cores than the one that measured.
    # Source: oneDNN and OpenMP documentation: more threads than physical cores rarely help.
    ModelChange.row(
        "threads",
        "threads in a call",
        "cpu",
        (0.6, 0.2, 8),
        risky=True,
        # Half of the CPUs, all, and one; not the number that it has.
        propose=lambda profile: [
            {"value": number}
            for number in dict.fromkeys([max(1, profile.cpus // 2), profile.cpus, 1])
            if number != profile.threads
        ],
        settings_only=True,
        apply=_set_threads,
    ),
    # Numbers below float32's normal range count as zero: a CPU is up to a hundred times slower on them.
    # Lies when: activations, not weights, are denormal: only weights are looked at.
    # Source: torch.set_flush_denormal; ONNX Runtime, session.set_denormal_as_zero; OpenVINO,
    # ov::intel_cpu::denormals_optimization.
    ModelChange.row(
        "flush_denormal",
        "denormal numbers count as zero",
        "cpu denormals",
        (0.5, 0.3, 8),
        settings_only=True,
        settings={"flush_denormal": True},
        properties={"CPU_DENORMALS_OPTIMIZATION": True},
    ),
]
