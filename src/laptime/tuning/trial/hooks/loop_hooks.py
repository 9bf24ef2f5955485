"""The script's loop as a trial sees it: everything that happens in it goes through `LoopHooks`, from torch's
wrapped functions to the callbacks of changes and to the trial's mode.

Which loader trains is not known at its first fetch, when its batches must be converted already. A loader
counts as one of training once a batch of it has gone backward. Before that it does while gradients are
enabled, when it shuffles (any sampler but the sequential one), or when no loader of the script does; and no
more after UNDECIDED fetches without a backward pass.

In a trial no change of a model or its forward part is on before the first training step, but those that
convert inputs: a model may be called once to be drawn, counted or exported."""

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from laptime.instrument.device import Device
from laptime.instrument.importing import in_children
from laptime.instrument.steps import Cut, StepFinder
from laptime.tuning.trial import facts
from laptime.tuning.trial.hooks.active_changes import ActiveChanges, ConstructorCalls, ForwardRegion
from laptime.tuning.trial.hooks.torch_hooks import TorchHooks
from laptime.tuning.trial.loop import Loop
from laptime.tuning.trial.messages import TrialPlan, TrialResult


class TrialMode:
    """Hears of everything that the loop does, and may stand in between. This one lets everything through.

    All methods are called on the thread of the loop. `hooks.loop_hooks.LoopHooks.stop`, called at a boundary,
    ends the script."""

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A loader's iterator is asked for a batch; returns the batch, usually `take()`, whose StopIteration
        is passed on."""
        return take()

    def forward(self, module: Any, inputs: Any) -> None:
        """An outermost module is about to be called with (arguments, keywords), gradients enabled or not."""

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass from `root` (a tensor, or what torch.autograd.backward was given); usually
        `run()`."""
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step; usually `run()`."""
        return run()

    def zero_grad(self, owner: Any, set_to_none: bool = True) -> None:
        """An optimizer or a module is about to zero its gradients."""

    def clip(self, norm: Any) -> None:
        """Gradients are about to be clipped from this norm, a tensor; None if it is not known."""

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Between two steps, before the next fetch. ended: a whole step lies behind; begins: another one
        follows."""

    def finish(self) -> None:
        """The script has ended, by us or by itself: write what is known. Called once, whatever happens."""


UNDECIDED = 4  # fetches without a backward pass after which a loader is none of training
NARROWED = 2  # whole steps after which the outermost modules are known


class LoopHooks(StepFinder):
    """The loop's objects, its clock, and the changes that are on.

    Attributes:
        models: outermost modules that were called with gradients enabled, in order. optimizers: those that
            have stepped. parallels: DistributedDataParallel modules. loaders: DataLoaders whose batches went
            into training.
        calls: constructor calls of the script, with the arguments that the SCRIPT gave, before any change.
        result: what is known by now; modes fill it in, `process` writes it.
        changes: those that are on. constructors: makes what the script constructs. region: the forward part
            of the step.
        began: perf_counter of the trial's start. epoch_start: nanoseconds that the loader took, right before
            the first step of an epoch, to make an iterator and start its workers; 0 before other steps.
            iterator_starts: the same of iterators that were made and not yet asked.
        scaled: what a GradScaler of the script has made of a loss, and the loss, until it goes backward.
        mode: hears of all this.
    """

    def __init__(self, plan: TrialPlan) -> None:
        super().__init__(plan.step_by)
        self.plan = plan
        self.models, self.optimizers = list[Any](), list[Any]()
        self.parallels, self.loaders = list[Any](), list[Any]()
        self.device, self.result, self.region = Device(), TrialResult(), ForwardRegion()
        self.refused = self.result.refused
        self.changes = ActiveChanges(self.refused, self.result.left)
        self.constructors = ConstructorCalls(self.changes, finds_sites=plan.mode == "diagnose")
        self.calls = self.constructors.calls
        self.epoch_start = 0
        self.scaled: tuple[Any, Any] | None = None
        self.began = perf_counter()
        self.mode = TrialMode()
        self._torch_hooks = TorchHooks(self)
        self._constructed_optimizers: list[Any] = []
        self._fetching = 0
        self._fetches: Counter[int] = Counter()
        self.iterator_starts: dict[int, int] = {}
        self._last_loader: Any = None
        self._trainable: dict[int, tuple[Any, bool]] = {}
        self._met_modules, self._trained_modules = set[int](), set[int]()
        self._stepped_optimizers: set[int] = set()
        self._unmet: list[Any] = []
        self._ended_steps, self._source = 0, ""
        self._is_over = False
        self._stop_looking: Callable[[], Any] = lambda: None
        self._is_grad_enabled: Callable[[], bool] = lambda: True

    def install(self) -> None:
        """Wrap torch's functions and apply the plan's base; torch was imported just now."""
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._torch_hooks.install()
        in_children(self._keep_still)
        for change in self.plan.base:
            self._put_on(change, live=False)

    def undo(self) -> None:
        """Give everything back; `result.left` says what could not be. Safe to call twice."""
        self._keep_still()
        self._stop_looking()
        self.region.leave()
        self.take_off(list(self.changes.changes))
        self._torch_hooks.undo()
        if not self._is_over:
            self._is_over = True
            left = []
            for iterator in list(self._torch_hooks.iterators):
                workers = list(getattr(iterator, "_workers", ()))
                iterator._shutdown_workers()
                left += [f"loader worker {worker.pid}" for worker in workers if worker.is_alive()]
            self.result.left += self._torch_hooks.list_left() + left

    def _keep_still(self) -> None:
        """Ignore what happens in forked children of the script, and after the end."""
        self.phases.is_closed = True

    # Changes.

    def put_on(self, changes: list[dict[str, Any]]) -> list[Loop]:
        """Apply live changes now; those that cannot be applied are in `refused`."""
        loops = [self._put_on(change, live=True) for change in changes]
        return [loop for loop in loops if loop is not None]

    def _put_on(self, change: dict[str, Any], *, live: bool) -> Loop | None:
        loop = Loop(
            live=live,
            models=self.models,
            optimizers=self._constructed_optimizers,
            parallels=self.parallels,
            device=_device_of(self.models[0]) if self.models else "",
        )
        return self.changes.put_on(change, loop, live=live)

    def take_off(self, loops: list[Loop]) -> None:
        """Undo what `put_on` has returned, last first."""
        for loop in reversed(loops):
            self.changes.take_off(loop)

    # What torch's hooks tell of construction.

    def optimizer_constructed(self, optimizer: Any) -> None:
        self._constructed_optimizers.append(optimizer)
        self.changes.meet("optimizers", optimizer)

    def adopt(self, optimizers: list[Any]) -> None:
        """Optimizers that were made before anything was wrapped; a step of the loop is one of theirs."""
        for optimizer in optimizers:
            self.steps.optimizer_made()
            self._torch_hooks.adopt(optimizer)
            self.optimizer_constructed(optimizer)

    def parallel_constructed(self, module: Any) -> None:
        self.parallels.append(module)
        self.changes.meet("parallels", module)

    # What they tell of the loop.

    def fetch(self, loader: int) -> None:
        """A batch is about to be fetched."""
        if not self.steps.prefetches:
            self.region.leave()
        self._fetching = loader
        self.epoch_start = self.iterator_starts.pop(loader, 0)
        super().fetch(loader)

    def exhaust(self, loader: int) -> None:
        self.region.leave()
        super().exhaust(loader)

    def _cut(self, cut: int) -> None:
        if self.stopped:
            self.stop()
        if not cut:
            return
        self.region.leave()
        if self._source != self.steps.source:
            self._source, self._ended_steps = self.steps.source, 0
        if cut & Cut.ENDS:
            self._ended_steps += 1
            if self.result.first is None:
                self.result.first = perf_counter() - self.began
            if self._ended_steps == max(NARROWED, self.plan.settle):
                self.on_settled()
        self.phases.cut()
        if self._has_trained():
            for module in self._unmet:
                self.changes.meet("model", module, converts=False)
            self._unmet = []
        self.mode.boundary(ended=bool(cut & Cut.ENDS), begins=bool(cut & Cut.BEGINS))

    def give_batch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """The batch that the script is given."""
        identity = self._fetching
        self._last_loader = loader
        self._fetches[identity] += 1
        if not self.changes.per_step["batch"] or not self._is_training(loader, identity):
            return self.mode.fetch(loader, take)
        return self.mode.fetch(loader, lambda: self.changes.replace_value("batch", take()))

    def _is_training(self, loader: Any, identity: int) -> bool:
        if self.steps.is_training(identity):
            return True
        if self._fetches[identity] > UNDECIDED or not self._is_grad_enabled():
            return False
        shuffled = self.constructors.shuffled
        return shuffled.get(id(loader), True) or not any(shuffled.values())

    def note_call(self, module: Any, inputs: Any) -> None:
        """An outermost module is about to be called with these inputs."""
        is_graded = self._is_grad_enabled()
        if self._can_train(module):
            self.forward(id(module), graded=is_graded, trains=module.training)
        elif not is_graded:
            self.steps.apart()
        self.mode.forward(module, inputs)
        if not is_graded:
            return
        if id(module) not in self._met_modules:
            self._meet(module)
        is_trained = id(module) in self._trained_modules
        contexts = self.changes.per_step["forward"]
        if contexts and is_trained and self._has_trained():
            self.region.enter(context for _, context in contexts)

        if is_trained and self._ended_steps >= self.plan.settle and not self.result.effects:
            seen = [facts.of_models(self.models), facts.of_optimizers(self.optimizers), facts.of_torch()]
            seen += [facts.of_loader(loader) for loader in self.loaders[-1:]]
            self.result.effects = sorted(set().union(*seen))
            self._look_inside(module)

    def _look_inside(self, module: Any) -> None:
        """Whether autocast is on where a leaf of the model computes: `forward` itself may enter it."""
        leaves = (leaf for leaf in module.modules() if next(leaf.children(), None) is None)
        leaf = next((leaf for leaf in leaves if leaf._parameters), None)

        def look(*_: Any) -> None:
            self._stop_looking()
            if facts.is_autocast():
                self.result.effects = sorted({*self.result.effects, "autocast"})

        if leaf is None or "compiled" in self.result.effects:  # a hook would compile the model once more
            look()
        else:
            self._stop_looking = leaf.register_forward_pre_hook(look).remove

    def _can_train(self, module: Any) -> bool:
        """Whether it has parameters to train: a transform, a loss and a frozen teacher begin no step."""
        if id(module) not in self._trainable:
            can_train = any(parameter.requires_grad for parameter in module.parameters())
            self._trainable[id(module)] = module, can_train  # kept, so that no other gets its id
        return self._trainable[id(module)][1]

    def _meet(self, module: Any) -> None:
        self._met_modules.add(id(module))
        if not self._can_train(module):
            return
        self._trained_modules.add(id(module))
        self.models.append(module)
        for loop in self.changes.changes:
            loop.device = loop.device or _device_of(module)
        if self._has_trained():
            self.changes.meet("model", module)
        else:
            self._unmet.append(module)
            self.changes.meet("model", module, converts=True)

    def _has_trained(self) -> bool:
        # `laptime.apply`, which has no folder, has changes on at once.
        return not self.plan.folder or bool(self._stepped_optimizers) or self.result.first is not None

    def went_backward(self, original: Any, args: Any, kwargs: Any) -> Any:
        self.region.leave()
        loader, self._last_loader = self._last_loader, None
        if loader is not None and not any(loader is trained_on for trained_on in self.loaders):
            self.loaders.append(loader)
        name = next((name for name in ("tensors", "outputs") if name in kwargs), "")
        root = args[0] if args else kwargs.get(name)

        def run() -> Any:
            if not self.changes.per_step["backward"]:
                return original(*args, **kwargs)
            scaled = self.changes.replace_value("backward", root)
            return original(scaled, *args[1:], **kwargs) if args else original(**{**kwargs, name: scaled})

        try:
            return self.mode.backward(root, run)
        finally:
            self.scaled = None

    def unscale(self, root: Any) -> Any:
        """Return the root of a backward pass before the script's GradScaler has scaled it."""
        return self.scaled[1] if self.scaled is not None and self.scaled[0] is root else root

    def run_step(self, optimizer: Any, step: Callable[[], Any]) -> Any:
        self.region.leave()
        if id(optimizer) not in self._stepped_optimizers:
            self._stepped_optimizers.add(id(optimizer))
            self.optimizers.append(optimizer)
        if self.changes.per_step["step"]:
            step = self.changes.around_step(optimizer, step)
        return self.mode.step(optimizer, step)


def _device_of(module: Any) -> str:
    """Type of the device of a module's first parameter: cpu, cuda; "" without one."""
    return next((str(parameter.device.type) for parameter in module.parameters()), "")
