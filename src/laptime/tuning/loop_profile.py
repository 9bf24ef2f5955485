"""The facts of a script's loop before anything is changed: the JSON that a diagnosing trial leaves.

Everything is in seconds, bytes and counts. `facts` are names that optimizations `NEED` and `CONFLICT` with.
What single optimizations have found by their `look` is in `details`, by their names."""

from dataclasses import dataclass, field
from typing import Any

UNKNOWN_NOISE = 0.03
"""Standard deviation of a round, as a share, if no A/A was measured: an ordinary shared machine."""
SHARES = ("data", "transfer", "forward", "backward", "optimizer", "other")
"""Parts of a step; their seconds add up to it."""
FACT_SENTENCES: dict[str, tuple[str, str]] = {
    # The device that the model is on, and what it computes fast.
    "cuda": ("the model is on an NVIDIA GPU", "the model is not on an NVIDIA GPU"),
    "cpu": ("the model is on the CPU", "the model is not on the CPU"),
    "mps": ("the model is on an Apple GPU", "the model is not on an Apple GPU"),
    "xpu": ("the model is on an Intel GPU", "the model is not on an Intel GPU"),
    "bf16": (
        "the device computes in bfloat16",
        "it would be slower: no bfloat16 units (CPU: avx512_bf16, amx; GPU: capability 8.0)",
    ),
    "fp16": ("the device computes in float16", "the device does not compute in float16"),
    "tf32": ("the GPU has TF32", "TF32 needs an NVIDIA GPU of compute capability 8.0 or more"),
    "amx": ("the CPU has AMX", "the CPU has no AMX"),
    "glibc_malloc": (
        "glibc allocates memory, as it does by default",
        "the C library is not glibc, or its allocator or thresholds were replaced",
    ),
    "huge_pages_on_request": (
        "the kernel gives huge pages on request, and nothing requests them",
        "the kernel gives huge pages always or never, or they are requested already",
    ),
    "denormals": ("weights hold denormal numbers", "weights hold no denormal numbers to speak of"),
    # What runs a model that is tuned by itself.
    "other_runtime": ("PyTorch does not run the model", "PyTorch runs the model"),
    "onnx_file": ("an ONNX file runs in ONNX Runtime as it is", "the model is not an ONNX file"),
    "on_onnxruntime": ("ONNX Runtime runs the model", "ONNX Runtime does not run the model"),
    "on_openvino": ("OpenVINO runs the model", "OpenVINO does not run the model"),
    # Kinds of modules of the trained models.
    "conv": ("the models have convolutions", "the trained models have no convolutions"),
    "attention": ("the models have attention", "the trained models have no attention"),
    "batchnorm": ("the model has batch normalisation", "the trained models have no batch normalisation"),
    "dropout": ("the models have dropout", "the trained models have no dropout"),
    "linear": ("the models have linear layers", "the trained models have no linear layers"),
    "embedding": ("the models have embeddings", "the trained models have no embeddings"),
    "hf_model": ("a model is a transformers.PreTrainedModel", "no trained model comes from transformers"),
    "blocks": ("a model has alike blocks", "no trained model has a Sequential or ModuleList of alike blocks"),
    # Where batches come from, and how the training loader is made now.
    "loader": ("batches come from a DataLoader", "batches do not come from a DataLoader"),
    "iterable_dataset": ("the dataset is an IterableDataset", "the dataset is not an IterableDataset"),
    "map_dataset": ("samples are read by index", "samples of an IterableDataset cannot be read by index"),
    "custom_sampler": ("the loader has a sampler of the script", "the loader has torch's own sampler"),
    "custom_batch_sampler": ("the loader has a batch sampler of the script", "batches are torch's own"),
    "custom_collate": ("the loader has a collate_fn of the script", "the loader collates as torch does"),
    "in_library": ("a library runs the training loop", "the script runs the training loop itself"),
    "workers": ("the loader has workers", "the loader has no workers"),
    "pinned": ("batches are in page-locked memory already", "batches are not in page-locked memory"),
    "persistent": ("loader workers live on between epochs already", "loader workers end with each epoch"),
    "random_transforms": (
        "reading a sample draws random numbers",
        "reading a sample draws no random numbers",
    ),
    # What the script does already.
    "autocast": ("the script uses mixed precision already", "the script uses no mixed precision"),
    "grad_scaler": ("the script scales its loss already", "the script does not scale its loss"),
    "compiled": ("the script compiles its model already", "the script compiles nothing"),
    "channels_last": ("the model is laid out channels_last already", "the model is not channels_last"),
    "checkpointing": ("the script recomputes activations already", "no activations are recomputed"),
    "ddp": ("the script uses DistributedDataParallel", "the script does not use DistributedDataParallel"),
    "data_parallel": ("the script uses DataParallel", "the script does not use DataParallel"),
    "find_unused": ("DDP searches for unused parameters", "no unused parameters are searched for"),
    "accumulation": ("the script accumulates gradients", "the script does not accumulate gradients"),
    "clipping": ("the script clips gradients", "the script does not clip gradients"),
    "scheduler": ("the script has a learning rate schedule", "the script has no learning rate schedule"),
    "zero_grad_to_zero": ("gradients are filled with zeros", "gradients are set to None already"),
    "syncs_every_step": ("every step waits for values of tensors", "no step waits for values of tensors"),
    "tf32_on": ("TF32 is on already", "TF32 is off"),
    "cudnn_benchmark_on": ("cudnn.benchmark is on already", "cudnn.benchmark is off"),
    # Its optimizer and parameters.
    "fused": ("the optimizer is fused already", "the optimizer is not fused"),
    "foreach": ("the optimizer works on lists of tensors already", "the optimizer has no foreach set"),
    "capturable": ("the optimizer is capturable", "the optimizer is not capturable"),
    "sgd": ("the optimizer is SGD", "the optimizer is not SGD"),
    "adam": ("the optimizer is Adam", "the optimizer is not Adam"),
    "adamw": ("the optimizer is AdamW", "the optimizer is not AdamW"),
    "adagrad": ("the optimizer is Adagrad", "the optimizer is not Adagrad"),
    "closure": ("the optimizer calls a closure", "the optimizer calls no closure"),
    "frozen_parameters": ("some parameters are frozen", "no parameters are frozen"),
    "several_optimizers": ("there are several optimizers", "there is one optimizer"),
    "several_models": ("there are several models", "there is one model"),
    # Conditions of compiling.
    "gcc": ("there is a C++ compiler", "torch.compile needs a C++ compiler, and there is none"),
    "varying_shapes": ("shapes vary from step to step", "shapes are the same in every step"),
}
"""By fact: what it says of a loop, and what its absence says. Reports use them as reasons."""
FACTS = frozenset(FACT_SENTENCES)  # an optimization can also give a fact of its own name


def unmet_need(needs: frozenset[str], facts: frozenset[str]) -> str:
    """The first need that does not hold, as a reason; "" when all do. "!" in front: it must not hold."""
    for need in sorted(needs):
        name = need.removeprefix("!")
        if (name in facts) == need.startswith("!"):
            present, absent = FACT_SENTENCES.get(name, (f"{name} is applied already", f"needs {name}"))
            return present if need.startswith("!") else absent
    return ""


@dataclass(frozen=True)
class Site:
    """Where the user's source does something, found while it ran."""

    # loader, optimizer, model (the optimizer's line, if the model has a name too), forward, backward, step
    # (optimizer.step), zero_grad, fetch (the loop over the loader), parallel (DDP), sync, hf_arguments
    # (transformers.TrainingArguments), lightning_trainer
    kind: str
    # file, line, function: the innermost frame in the user's own files (no site-packages, no standard
    # library)
    file: str
    line: int
    function: str = ""
    end_line: int = 0  # last line of the call if it is known, else `line`
    expression: str = ""  # how the object is called there: `model`, `self.net`; "" when it has no name
    index: int = 0  # which one in order of creation, from 0
    detail: str = ""  # what was done: the operator of a synchronisation, the class of a module
    count: float = 1.0  # how often in a step


@dataclass(frozen=True)
class LoopProfile:
    """A script's loop, diagnosed."""

    step: float = 0.0  # seconds of a whole step, median
    shares: dict[str, float] = field(default_factory=dict)  # seconds by part; add up to `step` (SHARES)
    # seconds of a step under each mode of the differential diagnosis: whole, cached, on_device, forward,
    # forward_backward, no_optimizer, half_batch, double_batch; missing where it could not be done
    what_if: dict[str, float] = field(default_factory=dict)
    enqueue: float | None = None  # seconds until the host has started everything; None on the CPU
    batch: int = 1  # samples of one step
    device: str = "cpu"  # cpu, cuda:0 ...
    cpus: int = 1  # usable ones: affinity and quota
    threads: int = 1  # torch's intra-op threads
    # shm, memory, device_memory: free bytes of /dev/shm, of RAM, of the device; None if unknown
    shm: int | None = None
    memory: int | None = None
    device_memory: int | None = None
    peak: int | None = None  # peak bytes of the process (CPU) or of the device's allocator
    batch_bytes: int = 0  # of one batch as the loader gives it
    # constructor arguments of the training loader: num_workers, batch_size, pin_memory ...
    loader: dict[str, Any] = field(default_factory=dict)
    loader_seconds: float | None = None  # of one batch in a single process, no worker
    dataset_length: int | None = None  # samples; None if unknown
    sample_bytes: int | None = None  # of one sample as the dataset gives it
    # class name, and the switches of its first group: fused, foreach, lr ...
    optimizer: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0  # elements
    tensors: int = 0  # how many
    state_bytes: int = 0  # of parameters, gradients and optimizer state
    # share of the batch that trailing padding takes; None if there are no padded sequences
    padding: float | None = None
    syncs: tuple[Site, ...] = ()  # synchronising calls of a step, as sites
    sites: tuple[Site, ...] = ()  # see Site
    facts: frozenset[str] = frozenset()  # names, see FACT_SENTENCES
    noise: float = 0.0  # relative standard deviation of a round of the script against itself (A/A)
    details: dict[str, Any] = field(default_factory=dict)  # more that single optimizations ask for, by name
    notes: tuple[str, ...] = ()  # what could not be diagnosed, and why
    seconds: float = 0.0  # that finding all this took

    def share(self, *names: str) -> float:
        """Seconds of these parts together."""
        return sum(self.shares.get(name, 0.0) for name in names)

    def detail(self, name: str, key: str, default: Any) -> Any:
        """One value of what is in `details` under a name; the default if it was not looked up."""
        return (self.details.get(name) or {}).get(key, default)

    @property
    def bottlenecks(self) -> dict[str, float]:
        """Seconds of what can limit the step; forward, backward and optimizer count as compute."""
        return {
            "data": self.share("data"),
            "transfer": self.share("transfer"),
            "compute": self.share("forward", "backward", "optimizer"),
            "other": self.share("other"),
        }

    @property
    def bound(self) -> str:
        """The limit of the step: the largest of `bottlenecks`."""
        return max(self.bottlenecks, key=self.bottlenecks.__getitem__)
