"""Runs one folder for a session; imports no laptime.

    python -I arm_process.py FOLDER CALLS.npz tensors|arrays cpu|cuda:0

Commands and answers are JSON (`laptime/process/channel.py`): with each answer the peak so far in bytes.

    {"calls": 20}      seconds of each of 20 calls with the first recorded inputs, after one or two more
    {"seconds": 2.0}   the same of as many calls as fit into 2 s
    {"outputs": PATH}  what it makes of all recorded inputs, written to PATH; how each call went
"""

import importlib.util
import json
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

LONG_CALL = 0.2  # seconds of a call that lets caches and threads forget whatever ran before it
Model = Callable[..., Any]
Array = np.ndarray[Any, Any]


def load_model(folder: Path) -> Model:
    """Load the model with `load()` of the folder's tuned.py."""
    model: Model = module_in(folder / "tuned.py").load()
    return model


def module_in(file: Path) -> ModuleType:
    """A module by its file: `python -I` sees no package that it belongs to."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def channel_to_parent() -> Any:
    """See `laptime.process.channel`. What a framework prints is no answer."""
    return module_in(Path(__file__).parents[2] / "process" / "channel.py").to_parent()


def inputs_in(path: Path, *, as_arrays: bool = False) -> list[list[Any]]:
    """Inputs of each recorded call: tensors, or arrays, which need no torch."""
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
        calls = [
            [stored[f"{index}_input_{place}"] for place in range(count)]
            for index, (_, count, _) in enumerate(about["calls"])
        ]
    if as_arrays:
        return calls
    return [to_tensors(inputs, about.get("types", ())) for inputs in calls]


def to_tensors(given: Sequence[Array], types: Sequence[str]) -> list[Any]:
    """Arrays as tensors of these types, as torch names them; none: of their own."""
    import torch

    both = zip(given, types or [each.dtype.name for each in given], strict=True)
    return [torch.from_numpy(each).to(getattr(torch, name)) for each, name in both]


def leaves(output: Any) -> Iterator[Any]:
    """All tensors or arrays of an output, in order."""
    if hasattr(output, "shape"):
        yield output
    elif hasattr(output, "values"):
        for value in output.values():
            yield from leaves(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from leaves(value)


def types_of(output: Any) -> list[str]:
    """Types of all tensors or arrays of an output: float32, int64."""
    return [str(leaf.dtype).rpartition(".")[2] for leaf in leaves(output)]


def arrays(output: Any) -> list[Array]:
    """The same as arrays of their own; floats of half precision as float32, as the recorded outputs are."""
    return [_array(leaf) for leaf in leaves(output)]


def _array(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if "bfloat16" in str(value.dtype):  # which NumPy does not have
            value = value.float()
        value = value.numpy()
    return np.array(value, np.float32 if value.dtype == np.float16 else value.dtype)


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _stride(value: Any) -> Any:
    """The same numbers, each second place of memory left out."""
    if hasattr(value, "clone"):
        return value.unsqueeze(-1).repeat(*[1] * value.ndim, 2)[..., 0]
    return np.repeat(value[..., None], 2, -1)[..., 0]


def count_warmup(call: float) -> int:
    """Calls of a block that do not count: what the other side's block left in caches is to be forgotten.
    call: seconds of one."""
    return 2 if call < LONG_CALL else 1


def time_calls(
    model: Model, inputs: list[Any], calls: float, limit: float = float("inf"), *, device: Any
) -> dict[str, Any]:
    """Seconds of each call, of so many or for so long.

    A call begins when nothing is queued on the device, and has ended when the device has finished it.
    Raises RuntimeError: the last one gives other outputs than the first, for the same inputs."""
    given = arrays(inputs)
    made, began = 0, time.perf_counter()
    while made < count_warmup(time.perf_counter() - began):
        output = model(*inputs)
        device.wait()
        made += 1
    first = arrays(output)
    seconds: list[float] = []
    until = time.perf_counter() + limit
    while len(seconds) < calls:
        began = time.perf_counter()
        if began > until:
            break
        output = model(*inputs)
        device.wait()
        seconds.append(time.perf_counter() - began)
    if not all(map(_alike, leaves(output), first)) and all(map(_equal, leaves(inputs), given)):
        raise RuntimeError(f"after {len(seconds)} more calls outputs differ for the same inputs")
    return {"seconds": seconds}


CALLS, SECONDS, THREADS, SOME, LONGER = 300, 2.0, 4, 120, 2.5
"""Calls, and seconds that they take, besides those whose outputs are written; threads that make as many. So
many may take longer: what is wrong from the hundredth call on shows beside other programs, too."""
SAME = 1e-4  # RMS by which outputs for the same inputs may differ, over their own: a sum in another order


def outputs(model: Model, calls: list[list[Any]], path: str, *, threads: int = THREADS) -> dict[str, Any]:
    """Run all recorded inputs; report the outputs, changed inputs, and earlier outputs that were overwritten.

    Returns:
        `counts`: arrays of each call, or what it raised. `names`: keys of a dict, [] of a tuple, else None;
        `types` of its arrays. `changed` inputs, `overwritten` outputs; `repeats`: the first inputs again, bit
        for bit; `laid`: they give the same from memory with gaps. `late`, `threads`: calls one after the
        other, and by several threads; what was wrong, or "".
    """
    held: dict[str, Array] = {}
    about: dict[str, Any] = {}
    counts: list[int | str] = []
    changed, kept = False, list[tuple[Any, list[Array]]]()
    for at, inputs in enumerate(calls):
        given = list(map(_copy, inputs))
        try:
            output = model(*given)
            made = arrays(output)
            about = about or {"names": names_of(output), "types": types_of(output)}
        except Exception as error:
            counts.append(first_words(error))
            continue
        changed = changed or not all(map(_equal, given, inputs))
        held |= {f"{at}_{place}": array for place, array in enumerate(made)}
        counts.append(len(made))
        kept = kept or [(output, made)]
    overwritten = any(not all(map(_equal, leaves(output), made)) for output, made in kept)
    again = arrays(model(*map(_copy, calls[0]))) if (ran := isinstance(counts[0], int)) else []
    first = [held[f"0_{place}"] for place in range(len(again))]
    repeats = all(one.tobytes() == other.tobytes() for one, other in zip(again, first, strict=True))
    about["laid"] = not ran or not _find_fault(model, map(_stride, calls[0]), first)
    np.savez(path, **held)  # type: ignore[arg-type]
    right = [
        (inputs, [held[f"{index}_{place}"] for place in range(count)])
        for index, (inputs, count) in enumerate(zip(calls, counts, strict=True))
        if isinstance(count, int)
    ]
    about["late"] = again_and_again(model, right, CALLS, SECONDS) if repeats else (0, "")
    about["threads"] = by_threads(model, right, threads) if repeats and threads else (0, "")
    return {"counts": counts, "changed": changed, "repeats": repeats, "overwritten": overwritten, **about}


def names_of(output: Any) -> list[str | None] | None:
    """Keys of a dict; [] of a tuple, or "" and None if it holds None; None of a tensor."""
    if hasattr(output, "shape") or hasattr(output, "values"):
        return None if hasattr(output, "shape") else list(output)
    names = [None if each is None else "" for each in output]
    return names if None in names else []


def again_and_again(
    model: Model, right: list[tuple[list[Any], list[Array]]], most: float, seconds: float
) -> tuple[int, str]:
    """Calls with the recorded inputs in turn until one is wrong; how many, and what was. right: inputs with
    the outputs that they gave before."""
    began, made = time.perf_counter(), 0
    while right and made < most and time.perf_counter() - began < seconds * (LONGER if made < SOME else 1):
        inputs, before = right[made % len(right)]
        made += 1
        if wrong := _find_fault(model, map(_copy, inputs), before):
            return made, wrong
    return made, ""


def _find_fault(model: Model, inputs: Iterable[Any], right: list[Array]) -> str:
    """Say what is wrong about a call; "" if nothing is."""
    try:
        output = model(*inputs)
    except Exception as error:
        return first_words(error)
    is_same = all(map(_alike, leaves(output), right))
    return "" if is_same else "outputs differ from before for the same inputs"


def first_words(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}".removesuffix(": ")


def by_threads(model: Model, right: list[tuple[list[Any], list[Array]]], threads: int) -> tuple[int, str]:
    """The same by several threads at once."""
    found: list[tuple[int, str]] = []

    def call(number: int) -> None:
        turned = right[number % len(right) :] + right[: number % len(right)]
        found.append(again_and_again(model, turned, CALLS / threads, SECONDS / 2))

    several = [threading.Thread(target=call, args=(number,)) for number in range(threads if right else 0)]
    for each in several:
        each.start()
    for each in several:
        each.join()
    return sum(made for made, _ in found), next((wrong for _, wrong in found if wrong), "")


def _alike(one: Any, other: Array) -> bool:
    ours = _array(one)
    if ours.shape != other.shape or ours.tobytes() == other.tobytes():
        return bool(ours.shape == other.shape)
    if other.dtype.kind not in "fc":
        return False
    apart, own = (float(np.linalg.norm(each[np.isfinite(other)])) for each in (ours - other, other))
    return bool(apart <= SAME * own)


def _equal(one: Any, other: Any) -> bool:
    return _array(one).tobytes() == _array(other).tobytes()


class Cpu:
    """The CPU: a call has ended when it returns; the peak is the largest resident set."""

    def move(self, inputs: list[Any]) -> list[Any]:
        """The same inputs."""
        return inputs

    def begin(self) -> None:
        """Nothing to note."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def peak(self) -> int:
        """Bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Cuda:
    """A CUDA device: calls are queued, and end when the device has finished them.

    The peak is what torch's allocator had in use at most, and what else this process has taken from the
    driver: weights of compiled packages, arenas of other runtimes, workspaces. The driver tells free bytes
    of all processes; so it is asked before and after what this one does, while the other side waits.
    The context itself does not count: every process has one.

    Lies when: another program takes or frees memory of the device meanwhile. name: cuda:0, cuda:1 ..."""

    def __init__(self, name: str) -> None:
        import torch

        self._torch, self._device = torch, torch.device(name)
        torch.cuda.set_device(self._device)
        torch.cuda.synchronize(self._device)  # makes the context, before the first reading
        self._taken = 0
        self.begin()

    def move(self, inputs: list[Any]) -> list[Any]:
        """The inputs on the device, once, before anything is timed."""
        return [each.to(self._device) for each in inputs]

    def begin(self) -> None:
        """Note the free bytes before this process does something."""
        self._free = self._torch.cuda.mem_get_info(self._device)[0]

    def wait(self) -> None:
        """Return when the device has finished all that was queued."""
        self._torch.cuda.synchronize(self._device)

    def peak(self) -> int:
        """Bytes so far."""
        self.wait()
        before = self._free
        self.begin()
        self._taken += before - self._free
        cuda = self._torch.cuda
        others = self._taken - cuda.memory_reserved(self._device)
        return int(cuda.max_memory_allocated(self._device) + max(0, others))


def device_named(device: str) -> Cpu | Cuda:
    """Return the device of calls: how inputs get there, how a call is waited for, its memory. device: as
    torch names it: cpu, cuda:0."""
    return Cuda(device) if device.startswith("cuda") else Cpu()


def main() -> None:
    """Load the folder, then answer until nobody is there to ask."""
    parent = channel_to_parent()

    def tell(answer: dict[str, Any]) -> None:
        parent.send(json.dumps({**answer, "peak": device.peak()}).encode())

    folder, recorded = map(Path, sys.argv[1:3])
    device = device_named(sys.argv[4])
    began = time.perf_counter()
    model = load_model(folder)  # before the inputs: it may set what torch reads for its first tensor
    seconds = time.perf_counter() - began
    calls = [device.move(each) for each in inputs_in(recorded, as_arrays=sys.argv[3] == "arrays")]
    tell({"seconds": seconds})
    for message in parent:
        command = json.loads(message)
        device.begin()
        if "outputs" not in command:
            most = (command.get(name, float("inf")) for name in ("calls", "seconds"))
            tell(time_calls(model, calls[0], *most, device=device))
        else:
            several = THREADS if sys.argv[4] == "cpu" else 0  # folders for a device take one call at a time
            tell(outputs(model, calls, command["outputs"], threads=several))


if __name__ == "__main__":
    main()
