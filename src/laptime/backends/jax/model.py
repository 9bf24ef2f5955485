"""A loaded target and its workloads: compiled for one batch size each, on one device, in one dtype.

Each batch size is compiled on its first call; tracing and compiling are timed apart from that call. On the
CPU a call returns with its result; on accelerators `sync` waits for the last output, which comes last because
a device works in order.

Lies when: the function closes over its weights: they are constants of the program then, are not counted as
parameters, and XLA may fold them away."""

import time
from collections.abc import Callable
from typing import Any

from laptime.backends._shared import Later, ProgramModel, environment
from laptime.backends.jax.program import (
    Pure,
    arrays,
    available,
    batch_is,
    batch_of,
    example,
    explain,
    items_of,
    move,
    name_of,
    not_counted,
    pure,
    rebatch,
    words,
)
from laptime.kit.errors import LaptimeError
from laptime.measure.metrics import FLOPS, PARAMETERS
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.targets import Program, arguments

jax = Later("jax")
_ENVIRONMENT = ("JAX_", "XLA_", "NPROC", "OMP_", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE")


class JaxWorkload:
    """One model with inputs of one batch size. The first call compiles. compile_seconds: tracing and
    compiling; None before the first call."""

    def __init__(
        self, program: Pure, args: tuple[Any, ...], kwargs: dict[str, Any], *, batch: int, on_cpu: bool
    ) -> None:
        self._wait = jax.block_until_ready
        self._jitted = jax.jit(program.function)
        self._inputs = (program.parameters, *args), kwargs
        self._run: Callable[..., Any] | None = None
        self._last: Any = None
        self.parameters = program.parameters
        self.batch = batch
        self.synchronous = on_cpu
        self.compile_seconds: float | None = None
        self.call: Callable[[], Any] = self._first

    def lower(self) -> Any:
        args, kwargs = self._inputs
        return self._jitted.lower(*args, **kwargs)

    def _first(self) -> Any:
        if self._run is None:
            started = time.perf_counter()
            self._run = self.lower().compile()
            self.compile_seconds = time.perf_counter() - started
            self.call = self._bound(self._run)
        return self.call()

    def _bound(self, run: Callable[..., Any]) -> Callable[[], Any]:
        args, kwargs = self._inputs
        wait = self._wait

        def finish() -> Any:
            return wait(run(*args, **kwargs))

        def start() -> Any:
            self._last = run(*args, **kwargs)
            return self._last

        return finish if self.synchronous else start

    def sync(self) -> None:
        """Waits for the last output; on the CPU there is nothing to wait for."""
        self._wait(self._last)


class JaxModel(ProgramModel[JaxWorkload]):
    """A target on one device, in one dtype."""

    def __init__(self, variant: Variant, program: Program, **how: Any) -> None:
        super().__init__(variant, program, **how)
        self._shapes: dict[int, str] = {}
        self._example = example(program, variant.target)
        self._pure = self._take_apart(program, self._example)

    def _take_apart(self, program: Program, given: Any) -> Pure:
        args, kwargs = move(arguments(given), self._device, self._variant.dtype)
        result = pure(program.call, args, kwargs, seed=self._variant.seed)
        return result._replace(parameters=move(result.parameters, self._device, self._variant.dtype))

    def _bind(self, batch: int) -> JaxWorkload:
        made, program = self._pure, self._program
        if program.make is not None:
            given = program.make(batch)
        elif self._rebuild is None:
            is_own = batch == (self.own_batch() or 1)
            given = self._example if is_own else rebatch(self._example, batch)
        elif batch == 1:
            given = self._example
        else:
            program = self._rebuild(batch)
            given = example(program, self._variant.target)
            made = self._take_apart(program, given)
        args, kwargs = move(arguments(given), self._device, self._variant.dtype)
        self._shapes[batch] = words(given)
        return JaxWorkload(made, args, kwargs, batch=batch, on_cpu=self._device.platform == "cpu")

    def own_batch(self) -> int | None:
        """Items in the inputs as they were given, None if nothing tells; 1 if inputs are made."""
        if self._program.make is not None or self._rebuild is not None or not items_of(self._example):
            return 1
        return batch_of(self._example)

    def inputs_of(self, batch: int) -> dict[str, Any]:
        self.workload(batch)
        is_given = self._program.make is None and self._rebuild is None
        return {
            "shapes": self._shapes[batch],
            "origin": self._program.origin,
            "batch_is": batch_is(self._example) if is_given else "as large as requested",
            **({"resized": True} if is_given and batch != (self.own_batch() or 1) else {}),
        }

    def facts(self) -> dict[str, Any]:
        given = arrays(arguments(self._example))
        return self._describe(
            {"kind": self._pure.kind, "device": name_of(self._device)},
            arrays(self._pure.parameters),
            {
                "shapes": words(given),
                "batch": self.own_batch(),
                "batch_is": batch_is(self._example),
                "bytes": sum(int(leaf.nbytes) for leaf in given),
            },
        )

    def devices(self) -> list[Device]:
        return [Device(name=name_of(self._device), model=self._device.device_kind)]

    libraries = staticmethod(available)

    def knobs(self) -> dict[str, Any]:
        """Settings of jax and variables of the environment that change speed or results."""
        settings: dict[str, Any] = {
            "jax.default_matmul_precision": str(jax.config.jax_default_matmul_precision or "default"),
            "jax.enable_x64": bool(jax.config.jax_enable_x64),
        }
        if self._variant.threads is not None:
            settings["jax.threads"] = self._variant.threads
        return settings | environment(_ENVIRONMENT)

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Parameters, and FLOPs by XLA's cost analysis of the program before it is optimised.

        XLA counts the inside of a loop once (`scan`, `fori_loop`: recurrent layers), and a call of a kernel
        or library not at all: such a count is incomplete."""
        work = self.workload(batch)
        series = []
        receipt: dict[str, Any] = {"batch": batch, "counter": "XLA cost analysis, before optimisation"}
        if parameters := arrays(work.parameters):
            total = float(sum(int(leaf.size) for leaf in parameters))
            series.append(Series(metric=PARAMETERS, samples=[total], probe="jax"))
        else:
            receipt["parameters"] = "a plain function: weights inside it are constants, and not counted"
        lowered = work.lower()
        doubtful = not_counted(lowered)
        receipt |= {"doubtful": doubtful, "complete": not doubtful}
        costs = lowered.cost_analysis() or {}
        costs = costs[0] if isinstance(costs, list) else costs
        flops = float(costs.get("flops", 0.0))
        if flops > 0:
            receipt["convention"] = "every arithmetic operation, elementwise ones too, not only products"
            receipt["transcendentals"] = float(costs.get("transcendentals", 0.0))
            series.append(Series(metric=FLOPS, samples=[flops], probe="cost_analysis"))
        else:
            receipt["reason"] = "XLA counts no floating-point operation in this program"
        return series, receipt

    def check_outputs(self, batch: int) -> dict[str, Any]:
        """Calls once: whether all floats that come out are finite, and what comes out, in words."""
        import jax.numpy as jnp

        output = self.output(batch)
        floats = [leaf for leaf in arrays(output) if jnp.issubdtype(leaf.dtype, jnp.inexact) and leaf.size]
        finite = all(bool(jnp.isfinite(leaf).all()) for leaf in floats) if floats else None
        return {"finite": finite, "shape": words(output)}

    def compiles(self) -> int:
        """Batch sizes compiled so far; shapes are fixed, so nothing else is ever compiled."""
        return sum(work.compile_seconds is not None for work in self._workloads.values())

    def compile_seconds(self, batch: int) -> float | None:
        """Seconds of tracing and compiling for this batch size; None before its first call."""
        return self.workload(batch).compile_seconds

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        return explain(error, f"{self._variant.target} failed at batch {batch}")
