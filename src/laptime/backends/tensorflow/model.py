"""A loaded target and its workloads: inference, on one device, in one mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.backends._shared import BoundWorkload, Later, ProgramModel, not_a_model, np, refuse_kind
from laptime.backends.tensorflow import TARGETS, count, modes, place, prepare
from laptime.kit.errors import LaptimeError, UsageError
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.targets import Program, parse
from laptime.targets.saved_model import Served

tf = Later("tensorflow")


@dataclass(kw_only=True, slots=True)
class TensorflowWorkload(BoundWorkload):
    """Inputs of one batch size bound to the model; the first call traces."""

    inputs: Any
    bound: modes.Bound
    program: Program


def load(variant: Variant) -> TensorflowModel:
    recipe = parse(variant.target)
    refuse_kind(recipe, TARGETS, "tensorflow", instead="a model of Keras: keras:EfficientNetB0")
    device = place.claim(variant)

    def build(batch: int) -> Program:
        tf.keras.utils.set_random_seed(variant.seed)
        with prepare.policy(variant.dtype):
            return prepare.with_inputs(recipe.build(batch), variant)

    try:
        rebuild = build if recipe.per_batch() else None
        facts = {"source": recipe.source, "sha256": recipe.sha256}
        return TensorflowModel(variant, build(1), device=device, facts=facts, rebuild=rebuild)
    except Exception as error:
        raise place.translate(error, doing=f"{variant.target} could not be loaded") from error


def adopt(subject: Any, inputs: Any, variant: Variant) -> TensorflowModel:
    prepare.check(variant)
    if not callable(subject):
        raise not_a_model(subject, "a Keras model, a tf.function")
    device = place.claim(variant)
    make = inputs if callable(inputs) else None
    given = None if make else inputs
    program = Program(call=subject, inputs=given, make=make, origin="none" if inputs is None else "given")
    try:
        program = prepare.with_inputs(program, variant)
        return TensorflowModel(variant, program, device=device, facts={"source": "in memory"}, rebuild=None)
    except Exception as error:
        raise place.translate(error, doing=f"{variant.target} could not be made ready") from error


class TensorflowModel(ProgramModel[TensorflowWorkload]):
    """A target in one mode on one device."""

    def __init__(self, variant: Variant, program: Program, **how: Any) -> None:
        super().__init__(variant, program, **how)
        self._mode = modes.mode_of(program.call, variant)
        prepare.check_dtype(program, variant)

    def _unbound(self, error: Exception, batch: int) -> Exception:
        return place.translate(error, doing=f"{self._variant.target}: no inputs of batch {batch}")

    def _bind(self, batch: int) -> TensorflowWorkload:
        program = self._rebuild(batch) if self._rebuild is not None and batch != 1 else self._program
        inputs = prepare.inputs_of(program, batch, is_for_it=self._rebuild is not None)
        bound = modes.bound(program.call, inputs, self._mode, batch)

        def first() -> Any:
            work.call = bound.run
            return bound.first()

        work = TensorflowWorkload(
            call=first,
            sync=place.waiter(self._device),
            batch=batch,
            synchronous=self._mode == "predict" or not place.waits(self._device),
            inputs=inputs,
            bound=bound,
            program=program,
        )
        return work

    def own_batch(self) -> int | None:
        """Items in the inputs as they were given, None if nothing tells; 1 if inputs are made."""
        given = self._program.inputs
        if self._rebuild is not None or given is None or not modes.has_batch(given):
            return 1
        return modes.batch_of(given)

    def inputs_of(self, batch: int) -> dict[str, Any]:
        is_given = self._program.make is None and self._rebuild is None
        return {
            "shapes": modes.words(self.workload(batch).inputs),
            "origin": self._program.origin,
            "batch_is": modes.batch_is(prepare.sample(self._program))
            if is_given
            else "as large as requested",
            **({"resized": True} if is_given and batch != (self.own_batch() or 1) else {}),
        }

    def facts(self) -> dict[str, Any]:
        given = prepare.sample(self._program)
        return self._describe(
            {"mode": self._mode, "device": self._device},
            self._weights(),
            {
                "shapes": modes.words(given),
                "batch": self.own_batch(),
                "batch_is": modes.batch_is(given),
                "bytes": modes.size(given),
            },
        )

    def devices(self) -> list[Device]:
        return place.describe(self._device)

    def libraries(self) -> dict[str, str]:
        return place.libraries(self._device)

    def knobs(self) -> dict[str, Any]:
        return {"tf.mode": self._mode, **place.knobs(self._device)}

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        work = self.workload(batch)
        held = self._weights()
        try:
            graph = modes.graph_of(work.program.call, work.bound)
            held = held or list(getattr(graph, "variables", ()))
            series, receipt = count.work(graph)
        except Exception as error:
            if place.memory_exhausted(error):
                raise
            reason = f"counting failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            series, receipt = [], {"reason": reason}
        if held:
            series = [*count.weights(held), *series]
        else:
            receipt["parameters"] = "the model is a plain function: it holds no variable that could be seen"
        return series, {**receipt, "batch": batch}

    def check_outputs(self, batch: int) -> dict[str, Any]:
        """Calls once: whether all floats that come out are finite, and what comes out, in words."""
        output = self.output(batch)
        return {"finite": modes.finite(output), "shape": modes.words(output)}

    def input_arrays(self, batch: int) -> list[np.ndarray[Any, Any]]:
        return modes.arrays(self.workload(batch).inputs)

    def outputs(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Return the model's outputs for these inputs, floats as float32; see `protocol.GivesOutputs`.
        Raises UsageError: the model takes another number of inputs."""
        like = prepare.sample(self._program)
        flat = tf.nest.flatten(like)
        if len(flat) != len(inputs):
            raise UsageError(
                f"{self._variant.target} cannot be given these inputs",
                why=f"it takes {len(flat)} tensors, not {len(inputs)}",
            )
        cast = [
            tf.cast(tf.convert_to_tensor(array), leaf.dtype) for array, leaf in zip(inputs, flat, strict=True)
        ]
        packed = tf.nest.pack_sequence_as(like, cast)
        batch = modes.batch_of(packed) or 1
        return modes.arrays(modes.bound(self._program.call, packed, self._mode, batch).run())

    def compiles(self) -> int:
        """Graphs traced so far; a tf.function of the user's counts what it traced before, too."""
        functions = {id(w.bound.function): w.bound.function for w in self._workloads.values()}.values()
        counts = [getattr(function, "experimental_get_tracing_count", None) for function in functions]
        return sum(traced() for traced in counts if traced is not None)

    def compile_seconds(self, batch: int) -> float | None:
        """Seconds of the first call that went into tracing, and with XLA into compiling, too."""
        return self.workload(batch).bound.compile_seconds(self._mode)

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        work = self._workloads.get(batch)
        shapes = modes.words(work.inputs) if work else ""
        return place.translate(error, doing=f"{self._variant.target} failed at batch {batch}", inputs=shapes)

    def _weights(self) -> list[Any]:
        """The variables that the model itself tells; a tf.function tells its own only when traced."""
        call = self._program.call
        holder = call.signature if isinstance(call, Served) else call
        return list(getattr(holder, "weights", None) or getattr(holder, "variables", None) or ())
