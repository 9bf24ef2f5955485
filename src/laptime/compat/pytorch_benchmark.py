"""Drop-in for `pytorch_benchmark.benchmark` (release 0.3.6): same arguments, same keys, right values.

    from laptime.compat.pytorch_benchmark import benchmark    # was: from pytorch_benchmark import benchmark
    results = benchmark(model, sample, num_runs=100)

What differs in value, and why, is told in docs/pytorch-benchmark.md and in `benchmark`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from laptime.backends.torch.loading import home_of
from laptime.backends.torch.setup import modules_in
from laptime.edges.pytorch_benchmark import Procedure, logger
from laptime.edges.pytorch_benchmark.program import first_item
from laptime.kit.errors import UsageError

if TYPE_CHECKING:
    import torch


def get_device(model: Any) -> "torch.device":
    """The device of the first parameter or buffer found in a model (or in a method's owner); else the CPU."""
    return home_of(model, ())


def to_device(value: Any, device: Any) -> Any:
    """Every tensor of a nested structure (list, tuple, mapping, dataclass) moved; dtypes stay."""
    import torch

    from laptime.backends.torch import tensors

    return tensors.move(value, torch.device(device))


def benchmark(
    model: Any,
    sample: Any,
    num_runs: int = 100,
    print_details: bool = False,
    get_device_fn: Callable[[Any], Any] = get_device,
    transfer_to_device_fn: Callable[[Any, Any], Any] = to_device,
    sample_with_batch_size1: Any = None,
    batch_size: int | None = None,
    print_fn: Callable[[str], Any] = logger.info,
    warm_up_fn: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Measure a model at batch size 1 and at that of `sample`.

    Args:
        model: a module, any callable, or a method of an object that holds modules. Called as
            `model(transfer_to_device_fn(sample, device))`, in eval and inference mode.
        sample: input, any nested structure.
        num_runs: timed runs of each program at each batch size; warm-up comes on top of them.
        print_details: also print what was counted and laptime's own report.
        get_device_fn: model -> torch.device.
        transfer_to_device_fn: (input or output, device or "cpu") -> the same there.
        sample_with_batch_size1: input with one item; cut from `sample` when not given.
        batch_size: items in `sample`; its leading dimension when not given.
        print_fn: hears every result as text.
        warm_up_fn: called as (model, sample, device, transfer_to_device_fn, num_runs=, batch_size=) before
            timing. Without it, and after it, warm-up is found in the samples.

    Returns:
        machine_info: system, cpu, memory, gpus. device: "cpu", "cuda" ... params: all parameters;
        trainable_params: those with a gradient.
        flops: FLOPs of one call with one item, 2 x MACs. (pytorch-benchmark gives MACs under this name.)
        macs: the MACs. Where `laptime.flops_not_counted` names operators, both are lower bounds.
        timing.batch_size_N.on_device_inference: seconds of a call; on CUDA those on the device itself,
            between events, without the host's part. On devices with memory of their own also cpu_to_gpu,
            gpu_to_cpu and total (wall time, host's part included), each timed by itself. Each has metrics
            (see `_results.timing`) of all `num_runs` runs, disturbed ones too, and human_readable.
        memory.batch_size_N (CUDA): bytes before, at the peak of, and after a warm call with its copies.
        energy.batch_size_N (where a sensor was read): joules and kWh of a call with its copies.
        laptime: verdict, reasons, medians with 95 % intervals by regime, and the whole run.

    Raises:
        UsageError: the batch size cannot be told, or the device is no torch.device.
        Exception: whatever the model or the functions raise; training flags are restored first."""
    if num_runs < 1:
        raise UsageError(
            f"num_runs={num_runs} measures nothing", why="it must be 1 or more", next="num_runs=100"
        )
    sample = transfer_to_device_fn(sample, "cpu")
    size = batch_size or _batch_of(sample)
    one = sample_with_batch_size1 if sample_with_batch_size1 is not None else first_item(sample, size)
    with _evaluating(model):
        work = Procedure(
            model,
            {1: one, **({size: sample} if size > 1 else {})},
            device=_device(get_device_fn(model)),
            transfer=transfer_to_device_fn,
            runs=num_runs,
            say=print_fn,
            warm_up=warm_up_fn,
        )
        return work.results(details=print_details)


def _batch_of(sample: Any) -> int:
    from laptime.backends.torch import tensors

    batch = tensors.batch_of(sample)
    if not batch:
        raise UsageError(
            "the batch size of the sample is not known",
            why=f"it is {tensors.words(sample)}, which holds no tensor with a leading dimension",
            next="benchmark(..., batch_size=8, sample_with_batch_size1=...)",
        )
    return batch


def _device(device: Any) -> "torch.device":
    import torch

    if not isinstance(device, torch.device):
        why = "it must return a torch.device"
        raise UsageError(f"get_device_fn returned {device!r}", why=why, next="torch.device('cpu')")
    here: torch.device = device
    if here == torch.device("cuda"):  # without an index it means the current one
        return torch.device("cuda", torch.cuda.current_device())
    return here


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Eval mode inside; every training flag as it was afterwards, whatever happens."""
    flags = [(part, part.training) for module in modules_in(model) for part in module.modules()]
    was_training = not flags and getattr(model, "training", False)
    try:
        for module in (model, *modules_in(model)):
            if hasattr(module, "eval"):
                module.eval()
        yield
    finally:
        for part, training in flags:
            part.training = training
        if was_training and hasattr(model, "train"):
            model.train()
