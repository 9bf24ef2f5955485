"""A loaded target and its workloads: in one mode, on one device, in one dtype."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from laptime.backends._shared import ByBatch, FreshInputs, np, torch
from laptime.backends.torch import batching, count, cuda, peaks, place, tensors, workload
from laptime.backends.torch.batching import Batching
from laptime.backends.torch.place import memory_exhausted, translate
from laptime.backends.torch.setup import Setup, find_held, modules_in, seed_all
from laptime.backends.torch.workload import TorchWorkload
from laptime.kit.errors import LaptimeError, Unavailable
from laptime.measure.first_call import finite, has_changed
from laptime.measure.protocol import PeakWork
from laptime.records.environment import Device
from laptime.records.series import Series
from laptime.targets import Program, arguments


class TorchModel(ByBatch[TorchWorkload]):
    """A target on one device. Every ability of the protocol but those of accelerators."""

    def __init__(
        self,
        setup: Setup,
        program: Program,
        *,
        facts: dict[str, Any],
        rebuild: Callable[[int], Program] | None,
    ) -> None:
        super().__init__()
        self._setup = setup
        self._device = setup.device
        self._program = program
        self._rebuild = rebuild
        self._facts = facts
        self._peak_size: int | None = None
        self._batching: Batching | None = None
        self._mode = str(setup.variant.options.get("grad", ""))
        self._why_mode = ""
        self._whole: Callable[[Any], Any] | None = None
        self._programs: dict[int, Program] = {}
        self._before: tuple[Any, Any] | None = None

    def _unbound(self, error: Exception, batch: int) -> Exception:
        return translate(error, doing=f"{self._setup.variant.target}: no inputs of batch {batch}")

    def _bind(self, batch: int) -> TorchWorkload:
        setup = self._setup
        program = self._program
        with torch.inference_mode(False):
            if self._rebuild is not None and batch != 1:
                seed_all(setup.variant.seed)
                program = setup.ready(self._rebuild(batch))
            inputs = setup.inputs(program, batch)
            if not self._makes_inputs:
                inputs = batching.resize(inputs, self.batching(), batch)
        self._programs[batch] = program
        fast, eager = self._callers(program)
        args, kwargs = arguments(inputs)
        return TorchWorkload(
            call=partial(fast, *args, **kwargs),
            sync=place.waiter(self._device),
            batch=batch,
            synchronous=self._device.type == "cpu",
            inputs=inputs,
            eager=partial(eager, *args, **kwargs),
        )

    def watch(self, batch: int) -> None:
        self._before = tensors.copy_inputs(self.workload(batch).inputs), workload.dice()

    def settle(self, batch: int, outcome: Any, whole: Callable[[Any], Any] | None) -> bool:
        work, program, asked = self.workload(batch), self._programs[batch], self._mode
        assert self._before is not None
        (kept, then), self._before = self._before, None
        work.changed, self._whole = has_changed(kept, work.inputs), whole or self._whole
        if not asked and not self._setup.variant.train:
            fresh, call = partial(tensors.copy_inputs, kept), self._with_all(program.call)
            if self._setup.variant.compile:  # in another mode it would be compiled again
                args, kwargs = arguments(fresh())
                with workload.thrown(then):
                    outcome = workload.inside("inference", call)(*args, **kwargs)
            self._mode, self._why_mode = workload.find_mode(call, fresh, then, outcome)
        if not (work.changed or whole or (self._mode not in ("", "inference") and not asked)):
            return False
        fast, eager = self._callers(program)
        if not work.changed:
            args, kwargs = arguments(work.inputs)
            work.call, work.eager = (partial(each, *args, **kwargs) for each in (fast, eager))
            return True
        used = work.inputs
        fresh_inputs = FreshInputs(lambda: arguments(tensors.copy_inputs(kept, into=used)))
        work.inputs, work.apart = kept, (fresh_inputs.lay, fresh_inputs.alone(fast))
        work.call, work.eager = fresh_inputs.anew(fast), fresh_inputs.anew(eager)
        return True

    def _with_all(self, call: Callable[..., Any]) -> Callable[..., Any]:
        whole = self._whole
        return call if whole is None else lambda *args, **kwargs: whole(call(*args, **kwargs))

    @property
    def _makes_inputs(self) -> bool:
        """Whether inputs of any batch size are made, by the program or by building it anew."""
        return self._program.make is not None or self._rebuild is not None

    def batching(self) -> Batching:
        """The batch of the inputs as they were given. Layers that have to be asked are, once, by a call."""
        if self._batching is None:
            program = self._program
            given = self._setup.inputs(program, 1)
            args, kwargs = arguments(given)
            call = partial(program.call, *args, **kwargs)
            self._batching = batching.find(call, self.modules(), given)
        return self._batching

    def own_batch(self) -> int | None:
        """Items in the inputs as they were given, None if nothing tells; 1 if inputs are made."""
        return 1 if self._makes_inputs else self.batching().size

    def batch_leads(self) -> bool:
        """Whether the batch is known to be the first dimension of all inputs that have it."""
        if self._makes_inputs:
            return True
        found = self.batching()
        return found.size is not None and not found.fixed and not any(found.places.values())

    def inputs_of(self, batch: int) -> dict[str, Any]:
        inputs = self.workload(batch).inputs
        is_given = not self._makes_inputs and self._program.inputs is not None
        resized = {"resized": True} if is_given and batch != (self.own_batch() or 1) else {}
        looked = {"looked": True} if self._batching is not None and self._batching.looked else {}
        return {
            "shapes": tensors.words(inputs),
            "origin": self._program.origin,
            "batch_is": self._batch_is(),
            "bytes": tensors.size(inputs),
            **resized,
            **looked,
            **({"changed": True} if self.workload(batch).changed else {}),
            **({"lazy": True} if self._whole else {}),
            **(
                {"grad": self._mode, "grad_why": self._why_mode}
                if self._mode not in ("", "inference")
                else {}
            ),
        }

    def _batch_is(self) -> str:
        if self._program.make is not None:
            return "as large as requested: the inputs are made"
        if self._rebuild is not None:
            return "as large as requested: the function makes the inputs"
        return self.batching().why

    def _callers(self, program: Program) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The call that is timed, as a function of its inputs; the same without a compiler, for counting."""
        mode, call = self._mode or "inference", self._with_all(program.call)
        fast = workload.inside(mode, self._with_all(self._setup.compile_call(program.call)))
        return fast, call if mode == "inference" else workload.inside(mode, call)

    def scope(self) -> AbstractContextManager[None]:
        """Inference mode for the calling thread; inside it a call does not have to enter it."""
        return place.entered(self._device, torch.inference_mode())

    def facts(self) -> dict[str, Any]:
        is_made = self._program.make is not None
        given = self._setup.inputs(self._program, 1) if is_made else self._program.inputs
        # Names, shapes and dtypes tell architectures apart.
        modules = self.modules()
        digest = hashlib.sha256()
        for module in modules:
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        facts = {
            "target": self._setup.variant.target,
            **self._facts,
            **self._program.facts,
            "model": type(self._program.call).__name__,
            "device": str(self._device),
            "dtypes": _dtypes(modules),  # numbers of tensors: int64 ones are counters of batch norms
            "weights_sha256": digest.hexdigest() if modules else "",
        }
        guessed_from = facts.pop("guess", None)
        facts["inputs"] = {
            "origin": self._program.origin,
            "shapes": tensors.words(given),
            "batch": self.own_batch(),
            "batch_is": self._batch_is(),
            "bytes": tensors.size(given),
            **({"guessed_from": guessed_from} if guessed_from else {}),
        }
        return facts

    def modules(self) -> list[torch.nn.Module]:
        """The modules found in the model; more than one when it is a function around several."""
        return modules_in(self._program.call)

    def devices(self) -> list[Device]:
        return place.describe(self._device)

    def libraries(self) -> dict[str, str]:
        return place.libraries(self._device, self._setup.packages)

    def knobs(self) -> dict[str, Any]:
        settings = place.knobs(self._device)
        if self._setup.variant.compile:
            settings["compile.mode"] = self._setup.variant.compile
            settings["compile.dynamic"] = False
        return settings

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Parameters and buffers; MACs and FLOPs of one eager call. See `laptime.backends.torch.count`."""
        work = self.workload(batch)
        return count.count(self.modules(), work.eager, batch=batch)

    def peak_work(self) -> PeakWork | None:
        """A product in the model's dtype. See `laptime.backends.torch.peaks.work_of_model`."""
        dtype = self._setup.variant.dtype
        if dtype == "auto":
            held = {name: n for name, n in _dtypes(self.modules()).items() if "float" in name}
            if not held:
                return None
            dtype = max(held, key=lambda name: held[name])
        work = peaks.work_of_model(self._device, dtype, size=self._peak_size)
        self._peak_size = work.facts["size"]
        return work

    def check_outputs(self, batch: int) -> dict[str, Any]:
        """Calls once: whether all floats that come out are finite, and what comes out, in words."""
        work, asked, threads = self.workload(batch), self._setup.variant.threads, [torch.get_num_threads()]
        module: Any = sys.modules["torch"]
        set_threads = module.set_num_threads

        def noting(number: int) -> None:  # a call may set another number, and the old one again
            threads.append(number)
            set_threads(number)

        module.set_num_threads = noting
        try:
            output = self.output(batch)
        finally:
            module.set_num_threads = set_threads
        told: dict[str, Any] = {
            "finite": finite(output),
            "shape": tensors.words(output),
            "threads": next((number for number in threads if number != asked), asked),
        }
        if not self._setup.variant.train:
            parts = (part for module in self.modules() for part in module.modules())
            call = workload.inside(self._mode or "inference", work.eager)
            told["in_eval"] = workload.share_of_eval(parts, call)
        is_first = self._batching is not None and self._batching.is_first
        if is_first and batch > 1 and not tensors.has_length(output, batch):
            told["batch"] = f"no output has {batch} as its first size, so it may not be a batch"
        return told

    def input_arrays(self, batch: int) -> list[np.ndarray[Any, Any]]:
        return tensors.arrays(self.workload(batch).inputs)

    def outputs(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """See `measure.protocol.GivesOutputs`.
        Raises Unavailable: the model would have to be compiled for them."""
        shapes = [array.shape for array in inputs]
        known = {
            batch: [tuple(tensor.shape) for tensor in tensors.tensors(work.inputs)]
            for batch, work in self._workloads.items()
        }
        batch = next((size for size, own in known.items() if own == shapes), None)
        if batch is None and self._setup.variant.compile:
            raise Unavailable("the model was not compiled for these inputs", why=f"their shapes are {shapes}")
        with torch.inference_mode(False):
            packed = tensors.put_arrays(self.workload(batch or self.own_batch() or 1).inputs, inputs)
        args, kwargs = arguments(packed)
        output = self._callers(self._program)[0](*args, **kwargs)
        place.waiter(self._device)()
        return [
            array.astype("float32") if array.dtype == "float16" else array for array in tensors.arrays(output)
        ]

    def compiles(self) -> int:
        """Graphs that torch.compile has made in this process; 0 when it was never used."""
        dynamo = sys.modules.get("torch._dynamo.utils")
        return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        work = self._workloads.get(batch)
        target = self._setup.variant.target
        shapes = tensors.words(work.inputs) if work else ""
        if self._program.origin == "guessed" and memory_exhausted(error) is None:
            refusal = translate(error, doing=f"{target} does not take the guessed inputs", inputs=shapes)
            return type(refusal)(
                refusal.what, why=refusal.why, next="return (model, inputs) from the function"
            )
        return translate(error, doing=f"{target} failed at batch {batch}", inputs=shapes)

    def close(self) -> None:
        super().close()
        self._setup.undo()


class CudaModel(TorchModel):
    """A target on a CUDA device: times on the device, its memory, copies to and from it."""

    def _bind(self, batch: int) -> TorchWorkload:
        work = super()._bind(batch)
        self._peaks = getattr(self, "_peaks", {})
        work.call = cuda.with_first_peak(work, self._device, self._peaks)
        return work

    def device_times(self, batch: int, calls: int) -> list[float]:
        """Seconds on the device of each of `calls` calls. See `laptime.backends.torch.cuda.event_times`."""
        work = self.workload(batch)
        with self.scope():
            return cuda.event_times(work.call, calls, clock=cuda.DeviceClock(self._device))

    def device_memory(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Bytes: weights, activations, reserved, peak. See `laptime.backends.torch.cuda.memory`."""
        work = self.workload(batch)
        with self.scope():
            return cuda.memory(work, self._device, self.modules(), first_peak=self._peaks.get(batch))

    def copies(self, batch: int, repeats: int) -> list[Series]:
        """Seconds of copies of inputs and outputs. See `laptime.backends.torch.cuda.copies`."""
        work = self.workload(batch)
        with self.scope():
            return cuda.copies(work, self._device, repeats)


def _dtypes(modules: list[torch.nn.Module]) -> dict[str, int]:
    return dict(Counter(str(tensor.dtype).removeprefix("torch.") for tensor in find_held(modules)))
