"""What is known of a script's loop before anything is changed; read from the JSON that a diagnosing trial
leaves.

Everything is seconds, bytes, counts. `facts` are names that optimizations `NEED` and `CONFLICT` with:

    cuda cpu mps xpu              the device that the model is on
    bf16 fp16 tf32 amx            what this device computes fast: bf16 on the CPU only with avx512_bf16 or amx
    conv attention batchnorm dropout linear embedding     kinds of modules of the trained models
    loader iterable_dataset map_dataset custom_sampler custom_batch_sampler custom_collate in_library
    workers pinned persistent     how the training loader is made now
    autocast grad_scaler compiled channels_last checkpointing ddp data_parallel    what the script does
    already
    fused foreach capturable sgd adam adamw adagrad  closure   its optimizer (fused: is set so already)
    frozen_parameters several_optimizers several_models accumulation clipping scheduler
    gcc                           torch.compile can build for this CPU
    random_transforms             reading one sample twice gives two results
    zero_grad_to_zero             gradients are set to zero, not to None
    tf32_on cudnn_benchmark_on    torch's switches
    syncs_every_step              .item(), .cpu(), print of tensors in every step
    varying_shapes                inputs of the trained models change their shapes from step to step
    find_unused                   DistributedDataParallel(find_unused_parameters=True)
    hf_model                      a trained model is a transformers.PreTrainedModel
    blocks                        a trained model has a Sequential or ModuleList of two or more alike children

What single optimizations know of the loop by their `look` is in `details`, by their names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

UNKNOWN_NOISE = 0.03
"""Standard deviation of a round, as a share, where no A/A was measured: an ordinary shared machine."""
SHARES = ("data", "transfer", "forward", "backward", "optimizer", "other")
"""Parts of a step; their seconds add up to it."""

_NAMES = """
    cuda cpu mps xpu bf16 fp16 tf32 amx
    conv attention batchnorm dropout linear embedding
    loader iterable_dataset map_dataset custom_sampler custom_batch_sampler custom_collate in_library
    workers pinned persistent
    autocast grad_scaler compiled channels_last checkpointing ddp data_parallel
    fused foreach capturable sgd adam adamw adagrad closure
    frozen_parameters several_optimizers several_models accumulation clipping scheduler
    gcc random_transforms zero_grad_to_zero tf32_on cudnn_benchmark_on syncs_every_step
    varying_shapes find_unused hf_model blocks
"""
FACTS = frozenset(_NAMES.split())
"""Facts of a loop, explained above. An optimization can also give a fact of its own name."""


@dataclass(frozen=True)
class Site:
    """Where the user's source does something, found while it ran.

    Attributes:
        kind: loader, optimizer, model (the optimizer's line, where the model has a name too), forward,
            backward,
            step (optimizer.step), zero_grad, fetch (the loop over the loader), parallel (DDP), sync,
            hf_arguments (transformers.TrainingArguments), lightning_trainer.
        file, line, function: the innermost frame in the user's own files (no site-packages, no standard
            library).
        end_line: last line of the call where it is known, else `line`.
        expression: how the object is called there: `model`, `self.net`; "" when it has no name.
        index: which one in order of creation, from 0.
        detail: what was done: the operator of a synchronisation, the class of a module.
        count: how often in a step.
    """

    kind: str
    file: str
    line: int
    function: str = ""
    end_line: int = 0
    expression: str = ""
    index: int = 0
    detail: str = ""
    count: float = 1.0


@dataclass(frozen=True)
class LoopProfile:
    """A script's loop, diagnosed.

    Attributes:
        step: seconds of a whole step, median.
        shares: seconds by part; add up to `step` (SHARES).
        what_if: seconds of a step under each mode of the differential diagnosis: whole, cached, on_device,
            forward, forward_backward, no_optimizer, half_batch, double_batch; missing where it could not be
            done.
        enqueue: seconds until the host has started everything; None on the CPU.
        batch: samples of one step.
        device: cpu, cuda:0 ...
        cpus: usable ones: affinity and quota. threads: torch's intra-op threads.
        shm, memory, device_memory: free bytes of /dev/shm, of RAM, of the device; None where unknown.
        peak: peak bytes of the process (CPU) or of the device's allocator.
        batch_bytes: of one batch as the loader gives it.
        loader: constructor arguments of the training loader: num_workers, batch_size, pin_memory ...
        loader_seconds: of one batch in a single process, no worker.
        dataset_length: samples; None where unknown. sample_bytes: of one sample as the dataset gives it.
        optimizer: class name, and the switches of its first group: fused, foreach, lr ...
        parameters: elements; tensors: how many; state_bytes: of parameters, gradients and optimizer state.
        padding: share of the batch that trailing padding takes; None where there are no padded sequences.
        syncs: synchronising calls of a step, as sites.
        sites: see Site.
        facts: names, see the module.
        noise: relative standard deviation of a round of the script against itself (A/A).
        details: more that single optimizations ask for, by name.
        notes: what could not be diagnosed, and why.
        seconds: that finding all this took.
    """

    step: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    what_if: dict[str, float] = field(default_factory=dict)
    enqueue: float | None = None
    batch: int = 1
    device: str = "cpu"
    cpus: int = 1
    threads: int = 1
    shm: int | None = None
    memory: int | None = None
    device_memory: int | None = None
    peak: int | None = None
    batch_bytes: int = 0
    loader: dict[str, Any] = field(default_factory=dict)
    loader_seconds: float | None = None
    dataset_length: int | None = None
    sample_bytes: int | None = None
    optimizer: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    tensors: int = 0
    state_bytes: int = 0
    padding: float | None = None
    syncs: tuple[Site, ...] = ()
    sites: tuple[Site, ...] = ()
    facts: frozenset[str] = frozenset()
    noise: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def share(self, *names: str) -> float:
        """Seconds of these parts together."""
        return sum(self.shares.get(name, 0.0) for name in names)

    @property
    def bound(self) -> str:
        """What limits the step: its largest part; forward, backward and optimizer count as compute."""
        parts = {
            "data": self.share("data"),
            "transfer": self.share("transfer"),
            "compute": self.share("forward", "backward", "optimizer"),
            "other": self.share("other"),
        }
        return max(parts, key=lambda name: parts[name])

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> LoopProfile:
        """What a trial has left: unknown names are dropped, lists become what they stand for."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in found.items() if name in known}
        for name in ("syncs", "sites"):
            given[name] = tuple(Site(**item) for item in given.get(name, ()))
        given["facts"] = frozenset(given.get("facts", ()))
        given["notes"] = tuple(given.get("notes", ()))
        return cls(**given)
