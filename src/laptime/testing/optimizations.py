"""Does an optimization keep its contract? Asked about many loop profiles, attached to a loop, tried as edit.

    from laptime.testing import check_optimization

    def test_mine_keeps_the_contract() -> None:
        check_optimization("mine")

The contract is `tuning/optimization.py`. torch is imported where `apply` needs it.

For tests of optimizations, `FakeLoop` is a loop without a script: what was attached is run on whatever the
test gives.

    loop = FakeLoop(models=[net])
    load("channels_last").apply(loop, {})
    with loop.in_forward():
        loss = net(loop.convert(images)).sum()
    loop.undo()"""

import copy
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from laptime.kit import registry
from laptime.testing.conformance import Broken, documented, need, takes
from laptime.testing.rules import section
from laptime.tuning.loop_profile import FACTS, SHARES, LoopProfile, Site
from laptime.tuning.optimization import NUMERICS, CannotEdit, Optimization, Options, load
from laptime.tuning.trial.loop import KINDS, CannotApply, ConstructorCall, Loop, Undo


class FakeLoop(Loop):
    """Implements `trial.loop.Loop`, and plays the script: the callbacks and the way back of the real one."""

    def __init__(self, *, device: str = "cpu", **given: Any) -> None:
        """A loop that has objects, `given` as for `Loop`; others may follow by `meet(kind, object)`."""
        super().__init__(device=device, **given)

    @property
    def kinds(self) -> set[str]:
        """Kinds of callbacks that are attached now."""
        return {kind for kind in KINDS if self.callbacks[kind]}

    def make(self, kind: str, cls: Any, **arguments: Any) -> ConstructorCall:
        """A constructor call after all changes: kind is loader, optimizer or parallel."""
        name = "DataLoader" if kind == "loader" else getattr(cls, "__name__", str(cls))
        call = self.rewritten(kind, ConstructorCall(name, cls, dict(arguments)))
        if kind == "loader" and "dataset" in call.arguments:
            for wrap in self.callbacks["dataset"]:
                call.arguments["dataset"] = wrap(call.arguments["dataset"])
        return call

    def convert(self, batch: Any) -> Any:
        for convert in self.callbacks["batch"]:
            batch = convert(batch)
        return batch

    @contextmanager
    def in_forward(self) -> Iterator[None]:
        with ExitStack() as stack:
            for context in self.callbacks["forward"]:
                stack.enter_context(context())
            yield

    def scale(self, loss: Any) -> Any:
        for scale in self.callbacks["backward"]:
            loss = scale(loss)
        return loss

    def run_step(self, optimizer: Any) -> Any:
        run: Callable[[], Any] = optimizer.step
        for around in self.callbacks["step"]:
            run = partial(around, optimizer, run)
        return run()

    def zeroing(self, **arguments: Any) -> dict[str, Any]:
        for rewrite in self.callbacks["zero_grad"]:
            rewrite(arguments)
        return arguments

    def start_worker(self, worker: int) -> None:
        """Run the callbacks that a loader worker runs before the script's own worker_init_fn."""
        for start in self.callbacks["worker"]:
            start(worker)


def check_optimization(name: str, *more: LoopProfile) -> None:
    """A change: declared, proposed and bounded by pure functions, attached and taken off, edited or refused.
    name: of the room `optimizations`. more: loop profiles that make it speak, if none of `stories()` does."""
    documented("optimizations", name)
    own = load(name)
    _check_declared(name, own)
    loop_profiles = {**stories(), **{f"argument {number}": each for number, each in enumerate(more)}}
    proposed: list[Options] = []
    for story, loop_profile in loop_profiles.items():
        proposed += _check_answers(name, own, loop_profile, story)
    need(
        proposed,
        f"optimizations/{name} proposes nothing in any of {len(loop_profiles)} loop profiles: give it one",
    )
    tried: set[str] = set()
    for options in proposed:
        text = json.dumps(options, sort_keys=True)
        if text not in tried and len(tried) < 12:
            tried.add(text)
            _check_apply(name, own, options)
            for given in EDITED:
                editor = FakeEditor(**given)
                try:
                    own.edit(editor, options)
                except CannotEdit as refusal:
                    need(str(refusal).strip(), f"optimizations/{name} cannot edit, and does not say why")
                    continue
                need(editor.calls, f"optimizations/{name} neither edits nor raises CannotEdit for {options}")


def _check_declared(name: str, own: Optimization) -> None:
    who, module = f"optimizations/{name}", registry.load("optimizations", name)
    for word in ("Source:", "Lies when:"):
        need(section(module, word), f"{who}: its docstring has no line `{word} ...`")
    need(isinstance(own.title, str) and own.title.strip(), f"{who}: title says what it does")
    need(own.numerics in NUMERICS, f"{who}: numerics {own.numerics!r} is none of {', '.join(NUMERICS)}")
    for word in ("live", "risky", "compiles", "read_at_start", "suggests"):
        need(isinstance(getattr(own, word), bool), f"{who}: {word} is neither True nor False")
    facts_known = FACTS | frozenset(registry.names("optimizations"))
    for word, facts in (("needs", own.needs), ("gives", own.given_facts), ("conflicts", own.conflicts)):
        need(isinstance(facts, frozenset), f"{who}: {word} is a {type(facts).__name__}, not a frozenset")
        strange = {fact.removeprefix("!") if word == "needs" else fact for fact in facts} - facts_known
        need(not strange, f"{who}: {word} has {', '.join(sorted(strange))}, which no loop profile knows")
    need(0.0 <= own.prior <= 1.0, f"{who}: prior is a share, 0 to 1")
    need(own.goal in ("throughput", "memory"), f"{who}: no goal {own.goal!r}")
    for of_profile in (own.offer, own.propose or own.offer, own.why_not):
        takes(of_profile, "loop_profile")
    saves = own.saves if callable(own.saves) else own.bound
    for with_options in (saves, own.finer or own.numerics_in, own.apply, own.edit):
        takes(with_options, "loop_profile, loop or script", "options")
    if own.look is not None:
        takes(own.look, "hooks")


def _check_answers(name: str, own: Optimization, loop_profile: LoopProfile, story: str) -> list[Options]:
    """Return its proposals for a loop profile; the same each time, and the loop profile stays as it was."""
    who, before = f"optimizations/{name}", copy.deepcopy(loop_profile)
    options: list[Options] = own.offer(loop_profile)
    need(isinstance(options, list), f"{who}: propose gives a {type(options).__name__}, not a list ({story})")
    need(options == own.offer(loop_profile), f"{who} proposes two things in one loop profile ({story})")
    need(isinstance(own.why_not(loop_profile), str), f"{who}: why_not gives no text ({story})")
    texts = [_json(option, who) for option in options]
    need(len(set(texts)) == len(texts), f"{who} proposes the same twice ({story})")
    for each in options:
        bound = own.bound(loop_profile, each)
        need(
            isinstance(bound, (int, float)) and 0.0 <= bound <= loop_profile.step,
            f"{who} promises {bound!r} s of a step of {loop_profile.step:g} s ({story})",
        )
        need(bound == own.bound(loop_profile, each), f"{who} has two bounds for one option ({story})")
        numerics = own.numerics_in(loop_profile, each)
        need(numerics in NUMERICS, f"{who}: numerics gives {numerics!r} ({story})")
    need(loop_profile == before, f"{who} changed the loop profile that it was given ({story})")
    return options


def _json(options: Options, who: str) -> str:
    """The options as text; they are plain JSON and come back as they were."""
    try:
        text = json.dumps(options, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise Broken(f"{who}: its options cannot be written as JSON: {error}") from error
    need(
        isinstance(options, dict) and json.loads(text) == options, f"{who}: {options!r} does not survive JSON"
    )
    return text


class _Loop(FakeLoop):
    """Counts what is done at once, which leaves no callback behind."""

    done = 0

    def process(self, do: Callable[[], Undo | None]) -> None:
        self.done += 1
        super().process(do)


def _check_apply(name: str, own: Optimization, options: Options) -> None:
    """It attaches something that its undo takes off; or it refuses, with a reason."""
    who, before = f"optimizations/{name}", _switches()
    options_before = copy.deepcopy(options)
    loop = _Loop(live=own.live)
    try:
        own.apply(loop, options)
    except CannotApply as refusal:
        need(str(refusal).strip(), f"{who} refuses {options} without a reason")
        loop.undo()
        need(_switches() == before, f"{who} refuses {options} and leaves switches changed")
        return
    need(not own.suggests, f"{who} is only suggested, and yet it can be applied")
    need(loop.kinds or loop.done, f"{who} attaches nothing for {options}")
    need(options == options_before, f"{who} changed the options that it was given")
    failed = loop.undo()
    need(not failed, f"{who} cannot be undone: {failed}")
    need(not loop.kinds, f"{who} leaves callbacks behind: {', '.join(sorted(loop.kinds))}")
    left = {key for key, value in _switches().items() if before.get(key) != value}
    need(not left, f"{who} leaves changed: {', '.join(sorted(left))}")


def _switches() -> dict[str, Any]:
    """Return what a change of the process could leave behind: torch's switches, its functions, variables."""
    import gc

    import torch
    from torch.utils.data import DataLoader, _utils

    switches: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "gc": (gc.isenabled(), gc.get_threshold()),
        "environment": {key: value for key, value in os.environ.items() if not key.endswith("CACHE_DIR")},
    }
    owners = (torch.nn.Module, torch.optim.Optimizer, DataLoader, torch.Tensor, torch.nn.functional, _utils)
    for owner in owners:
        for key, value in vars(owner).items():
            if callable(value):
                switches[f"{owner.__name__}.{key}"] = id(value)
    return switches


class FakeEditor:
    """Implements `patch.editor.Editor` for a script that has everything, or only `kinds` of sites."""

    comment = ""

    def __init__(self, kinds: Iterable[str] | None = None, arguments: dict[str, str] | None = None) -> None:
        """`arguments`: sources by name that every call at a site has."""
        self.kinds = None if kinds is None else frozenset(kinds)
        self.arguments = arguments or {}
        # what was asked for, in order: method, positional arguments, keyword arguments
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def has_site(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def argument(self, kind: str, name: str) -> str | None:
        """Return the argument that calls are said to have."""
        return self.arguments.get(name)

    def __getattr__(self, method: str) -> Callable[..., None]:
        """Every other method of the contract notes that it was called."""
        from laptime.tuning.patch.editor import Editor

        if method.startswith("_") or not callable(getattr(Editor, method, None)):
            raise AttributeError(f"patch.editor.Editor has no {method}")

        def note(*args: Any, **kwargs: Any) -> None:
            inspect.signature(getattr(Editor, method)).bind(self, *args, **kwargs)
            self.calls.append((method, args, kwargs))

        return note

    def list_calls(self, method: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments of every call of this method."""
        return [(args, kwargs) for each, args, kwargs in self.calls if each == method]


EDITED: tuple[dict[str, Any], ...] = (
    {"kinds": None},
    {
        "kinds": None,
        "arguments": {"lr": "0.1", "dataset": "data", "worker_init_fn": "start", "batch_size": "8"},
    },
    {"kinds": ["loader", "optimizer", "model", "fetch", "forward", "backward", "step", "sync"]},
    {"kinds": ["hf_arguments"]},
    {"kinds": ["lightning_trainer", "loader"]},
)
"""Scripts that an edit is tried on."""
_GIB = 1 << 30
_CPU = LoopProfile(
    step=0.5,
    shares=dict(zip(SHARES, (0.05, 0.0, 0.2, 0.2, 0.04, 0.01), strict=True)),
    what_if={"whole": 0.5, "cached": 0.45, "half_batch": 0.3, "double_batch": 0.8},
    batch=32,
    cpus=8,
    threads=8,
    shm=4 * _GIB,
    memory=32 * _GIB,
    peak=2 * _GIB,
    batch_bytes=20 << 20,
    loader={"num_workers": 0, "batch_size": 32, "shuffle": True},
    loader_seconds=0.05,
    dataset_length=1024,
    sample_bytes=600 << 10,
    optimizer={"class": "SGD", "lr": 0.1, "fused": None, "foreach": None},
    parameters=11_000_000,
    tensors=62,
    state_bytes=130 << 20,
    facts=frozenset({"cpu", "loader", "map_dataset", "conv", "linear", "batchnorm", "sgd", "gcc"}),
    noise=0.02,
)


def stories() -> dict[str, LoopProfile]:
    """Loop profiles that an optimization must stand: small and large machines, every bottleneck, none."""
    examples = {name: load(name).example for name in registry.names("optimizations")}
    details = {**examples, "page_faults": 100_000}
    shares = dict(zip(SHARES, (0.05, 0.03, 0.2, 0.2, 0.01, 0.01), strict=True))
    starved = dict(zip(SHARES, (0.4, 0.0, 0.04, 0.04, 0.01, 0.01), strict=True))
    cuda = replace(
        _CPU,
        device="cuda:0",
        shares=shares,
        enqueue=0.3,
        device_memory=60 * _GIB,
        syncs=(Site("sync", "train.py", 12, "main", 12, "", 0, "item", 1.0),),
        facts=_CPU.facts - {"cpu"}
        | {"cuda", "bf16", "fp16", "tf32", "pinned", "workers", "syncs_every_step"},
        loader={**_CPU.loader, "num_workers": 4, "pin_memory": True},
    )
    return {
        "CPU, bound by compute": _CPU,
        "CPU, bound by data": replace(_CPU, shares=starved, loader_seconds=0.4),
        "CPU, files read again and again": replace(
            _CPU, shares=starved, loader_seconds=0.4, details={**details, "batched_fetch": False}
        ),
        "random transforms": replace(
            _CPU, shares=starved, loader_seconds=2.0, facts=_CPU.facts | {"random_transforms"}
        ),
        "one core, no memory": replace(_CPU, cpus=1, threads=1, shm=1 << 20, memory=1 << 20),
        "GPU": cuda,
        "GPU, bound by the host": replace(cuda, enqueue=0.5),
        "stream": replace(
            _CPU, facts=_CPU.facts - {"map_dataset"} | {"iterable_dataset"}, dataset_length=None
        ),
        "everything": replace(
            cuda, facts=FACTS, padding=0.5, details=details, loader={**cuda.loader, "prefetch_factor": 2}
        ),
        "everything, on the CPU": replace(
            _CPU,
            facts=FACTS - {"cuda", "mps", "xpu", "clipping", "scheduler", "adam", "adamw", "adagrad"},
            padding=0.5,
            details=details,
        ),
        "nothing": LoopProfile(),
    }
