"""A target, or an object of this process, loaded and made ready as the variant asks.

A language model's two phases, each as a program of its own: reading the prompt, and one step of decoding.

The model is called as those of transformers are, which is all that is asked of it:

    model(input_ids=IDS, past_key_values=CACHE or None, use_cache=True) -> .logits, .past_key_values

IDS are (batch, tokens) whole numbers below the size of its first embedding. A cache that a call makes longer
is cut back with its own `crop(length)`; one of plain tensors, which no call changes, needs nothing.

    prefill   the prompt at once, with an empty cache
    decode    one token with a cache of prompt + output/2 tokens: the mean of all steps of an answer, as far
              as a step takes time in proportion to its context

Bytes of a step are the least that has to be moved: every weight once (of an embedding that is looked up, only
its row), the cache once, and the new token's part of it.

Lies when: experts are chosen by token (weights that no token chose are counted); a step is slowed down by its
sampling, which is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from laptime.backends._shared import not_a_model, torch, unknown_dtype
from laptime.backends.torch import peaks, place, tensors, workload
from laptime.backends.torch.model import CudaModel, TorchModel
from laptime.backends.torch.place import translate
from laptime.backends.torch.setup import Setup, find_held, modules_in, seed_all
from laptime.backends.torch.training import CudaTrainingModel, TrainingModel
from laptime.kit.errors import UsageError, UserCodeError, unknown
from laptime.records.plan import Variant
from laptime.targets import Program, parse

DTYPES = ("float32", "bfloat16", "float16", "float64")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def load(variant: Variant, inputs: Any = None) -> TorchModel:
    """The target of a variant, built and made ready. See `laptime.backends.torch.open`. inputs: of a call, in
    place of those that the target has; None: its own."""
    _check(variant)
    device = place.resolve(variant.device)
    recipe = parse(variant.target)
    floats = "float32" if variant.train else variant.dtype  # a step in another dtype is mixed precision
    setup = Setup(variant, device, floats=floats, packages=recipe.packages)
    facts = {"source": recipe.source, "sha256": recipe.sha256}
    try:
        seed_all(variant.seed)
        rebuild = recipe.build if recipe.per_batch() else None
        program = phase_of(recipe.build(1), variant.options, device)
        if inputs is not None:
            program, rebuild = replace(program, inputs=inputs, origin="given"), None
        ready = with_bytes(setup.ready(program))
        if inputs is not None:
            ready = replace(
                ready, make=None
            )  # not before: statistics of batch norms come from inputs it makes
        return _model(setup, ready, facts, None if "phase" in variant.options else rebuild)
    except Exception as error:
        setup.undo()
        raise translate(error, doing=f"{variant.target} could not be loaded") from error


def adopt(subject: Any, inputs: Any, variant: Variant) -> TorchModel:
    """An object of this process, made ready. See `laptime.backends.torch.open_object`."""
    _check(variant)
    if not callable(subject):
        raise not_a_model(subject, "a torch.nn.Module")
    if variant.train:
        raise UsageError(
            "an object of this process cannot be trained here",
            why="its weights would change",
            next="name it as file.py:function: laptime bench --train file.py:function",
        )
    device = home_of(subject, inputs) if variant.device == "auto" else place.resolve(variant.device)
    setup = Setup(variant, device, floats=variant.dtype, packages=())
    make = inputs if callable(inputs) and not tensors.is_tensor(inputs) else None
    given = None if make else inputs
    origin: Any = "none" if inputs is None else "given"
    program = Program(call=subject, inputs=given, make=make, origin=origin)
    try:
        program = setup.ready(program, is_users=True)
    except Exception as error:
        setup.undo()
        raise translate(error, doing=f"{variant.target} could not be made ready") from error
    return _model(setup, program, {"source": "in memory"}, None)


def _model(
    setup: Setup, program: Program, facts: dict[str, Any], rebuild: Callable[[int], Program] | None
) -> TorchModel:
    is_cuda = setup.device.type == "cuda"
    kind: type[TorchModel] = CudaModel if is_cuda else TorchModel
    if setup.variant.train:
        kind = CudaTrainingModel if is_cuda else TrainingModel
    return kind(setup, program, facts=facts, rebuild=rebuild)


def _check(variant: Variant) -> None:
    if variant.dtype not in (*DTYPES, "auto"):
        raise unknown_dtype(variant.dtype, DTYPES)
    if variant.compile and variant.compile not in MODES:
        what = f"torch.compile has no mode {variant.compile!r}"
        example = "--compile default"
        raise unknown("mode", variant.compile, MODES, option="--compile", example=example, what=what)
    for name, known in {"grad": workload.MODES, "mode": ("eval", "train")}.items():
        given = variant.options.get(name)
        if given is not None and given not in known:
            option = f"--option {name}="
            raise unknown(name, str(given), known, option=option, example=f"{option}{known[0]}")


def home_of(subject: Any, inputs: Any) -> torch.device:
    first = next(chain(find_held(modules_in(subject)), tensors.tensors(inputs)), None)
    return torch.device("cpu") if first is None else first.device


# Language models.


PHASES = ("prefill", "decode")
_BANDWIDTH_SECONDS = 0.5


def phase_of(program: Program, options: dict[str, Any], device: torch.device) -> Program:
    """A program around a language model, not yet made ready; the program itself if no phase is asked for.
    Raises UsageError: impossible options, or no language model."""
    if "phase" not in options:
        return program
    phase = str(options["phase"])
    prompt, output = (_whole(options, name, default) for name, default in (("prompt", 128), ("output", 32)))
    if phase not in PHASES:
        raise UsageError(f"no phase is called {phase!r}", why=f"known: {', '.join(PHASES)}", next="--llm")
    vocabulary = _vocabulary(program.call)
    most = getattr(getattr(program.call, "config", None), "max_position_embeddings", None)
    if most is not None and prompt + output > most:
        why, next = f"the model has a context of {most} tokens", f"--prompt {max(1, most - output)}"
        raise UsageError(f"{prompt} tokens of prompt and {output} of output do not fit", why=why, next=next)
    module = _phase_module()(program.call, phase, prompt if phase == "prefill" else prompt + output // 2)

    def make(batch: int) -> Any:
        return module.inputs(batch, vocabulary)

    facts = {
        "phase": phase,
        "prompt": prompt,
        "output": output,
        "context": module.length,
        "tokens": prompt if phase == "prefill" else 1,
    }
    if phase == "decode":
        facts |= {"bandwidth": peaks.best_copy(device, _BANDWIDTH_SECONDS)}
    return replace(program, call=module, inputs=None, make=make, origin="known", facts={"llm": facts})


def with_bytes(program: Program) -> Program:
    """The program, made ready, with what a step of decoding has to move in its facts."""
    llm = program.facts.get("llm")
    if llm is None or llm["phase"] != "decode":
        return program
    module: Any = program.call
    module.inputs(1, 1)
    moved = {"weight_bytes": _weight_bytes(module), "cache_bytes": module.cache_bytes(1)}
    return replace(program, facts={**program.facts, "llm": {**llm, **moved}})


def _whole(options: dict[str, Any], name: str, default: int) -> int:
    text = str(options.get(name, default))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--{name} {text} is impossible", why="it must be 1 or more", next=f"--{name} 128")
    return int(text)


def _vocabulary(model: Any) -> int:
    if isinstance(model, torch.nn.Module):
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                return module.num_embeddings
    raise _no_language_model(model, "it has no embedding of tokens")


def _no_language_model(model: Any, why: str) -> UsageError:
    return UsageError(
        f"{type(model).__name__} is not a language model that can be driven here",
        why=why,
        next="docs/llm.md lists what a model needs",
    )


def _phase_module() -> type[Any]:
    """The class, made here because torch is not imported before it is needed."""

    class Phase(torch.nn.Module):
        """One phase of a model; `length` tokens of prompt, or of context that the cache holds."""

        def __init__(self, model: torch.nn.Module, phase: str, length: int) -> None:
            super().__init__()
            self.model = model
            self.phase = phase
            self.length = length
            self.caches: dict[int, Any] = {}

        def inputs(self, batch: int, vocabulary: int) -> Any:
            device = next(self.model.parameters()).device
            ids = torch.randint(vocabulary, (batch, self.length), device="cpu").to(device)
            if self.phase == "prefill":
                return (ids,)
            if batch not in self.caches:
                with torch.no_grad():
                    self.caches[batch] = _call_model(self.model, ids, None).past_key_values
            return (ids[:, :1],)

        def cache_bytes(self, batch: int) -> int:
            return sum(t.numel() * t.element_size() for t in _tensors(self.caches[batch], set()))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            cache: Any = None if self.phase == "prefill" else self.caches[ids.shape[0]]
            logits: torch.Tensor = self.model(input_ids=ids, past_key_values=cache, use_cache=True).logits
            if hasattr(cache, "crop"):
                cache.crop(self.length)
            return logits

    return Phase


def _call_model(model: torch.nn.Module, ids: torch.Tensor, cache: Any) -> Any:
    """The model's own answer, checked once for what later calls rely on.
    Raises UsageError: it is not called like this, or gives no logits or no cache. UserCodeError: it fails."""
    try:
        result = model(input_ids=ids, past_key_values=cache, use_cache=True)
    except TypeError as error:
        raise _no_language_model(
            model, f"it is not called with input_ids, past_key_values, use_cache: {error}"
        ) from error
    except Exception as error:
        raise UserCodeError(
            f"{type(model).__name__} failed on a prompt", why=str(error), next="run it on its own"
        ) from error
    for name in ("logits", "past_key_values"):
        if getattr(result, name, None) is None:
            raise _no_language_model(model, f"what it returns has no {name}")
    return result


def _weight_bytes(module: Any) -> int:
    """The bytes of all weights but lookup tables; if one is the output layer, too, all of it is read."""
    counts: dict[int, torch.Tensor] = {}
    for part in module.modules():
        if not isinstance(part, torch.nn.Embedding):
            counts |= {id(weight): weight for weight in part._parameters.values() if weight is not None}
    return sum(weight.numel() * weight.element_size() for weight in counts.values())


def _tensors(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Tensors in tuples, lists, mappings and plain objects such as a cache, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
        return
    is_object = hasattr(value, "__dict__") and not isinstance(value, type | torch.dtype | torch.device)
    held = vars(value) if is_object else value
    for each in held.values() if isinstance(held, dict) else held if isinstance(held, list | tuple) else ():
        yield from _tensors(each, seen)
