"""Mode gate: captures the numerics of a few training steps under a recipe, and compares them with the base's.

It begins between two steps, when the first one is over: then models, optimizers and their state all exist.
Before every step and batch the seeds of torch, random and numpy are set anew, so that nobody's draws shift
another's; and models and optimizers get back the state of the capture, so that each step is a first one, on
another batch. Rounding errors that later steps have amplified would tell nothing: a ResNet-18 at a rate of
0.1 turned its gradients by 5 degrees in three steps. The captured batches are fed inside the batches that the
loader gives here (`captured_inputs`). The steps themselves run as the script runs them.

The first run, of the script as it is, makes the capture; `messages.CapturePlan` says what each run does.
Gradients are those that the optimizer's own step sees: after unscaling and clipping. Batch sizes are those
that loaders give, whatever is fed; without a loader, those that reach the models. If a step ends with its
optimizer, its batch may be one that was fetched before: the first step is run and not kept.
Lies when: the script draws random numbers in another order under the recipe (a GAN's noise is seeded by
batch, so it does not), or keeps state of its own outside of models and optimizers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from laptime.tuning import wire_format
from laptime.tuning.trial import batches, messages
from laptime.tuning.trial.hooks.loop_hooks import TrialMode
from laptime.tuning.trial.messages import NumericsComparison, TrialPlan
from laptime.tuning.trial.numerics import captured_inputs, comparison, model_variants, tensor_summary

SEED = 20_240_229


class NumericsCapture(TrialMode):
    """Mode gate."""

    def __init__(self, plan: TrialPlan, hooks: Any) -> None:
        self._folder, self._plan, self._hooks = plan.folder, plan.capture, hooks
        self._seed = SEED if plan.seed is None else plan.seed
        self._state = "waiting"  # then capturing, done
        self._reads_samples = self._leads = False
        self._fed: list[list[Any]] = []
        self._captured_batches: list[list[Any]] = []
        self._feeds = self._makes_capture = False
        self._fetches = 0
        self._start, self._initial = dict[str, Any](), dict[str, Any]()
        self._steps, self._settings, self._data = (list[dict[str, Any]]() for _ in range(3))
        self._notes: list[str] = []
        self._undo: list[Callable[[], None]] = []
        self._stride = 1
        self._stepping: Any = None
        self._step = _empty_step()
        self._norms_before: dict[int, float] = {}

    # The loop.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """The batch of the capture, in the shape of the loader's own."""
        batch = take()
        loaders = self._hooks.loaders
        # Any loader's batches go into training while no training loader is known.
        trains = not loaders or any(loader is each for each in loaders)
        if self._state != "capturing" or self._reads_samples or not trains:
            return batch
        self._step["samples"] += batches.size(batch)
        number = self._fetches
        self._fetches += 1
        if self._makes_capture:
            most = self._plan.most
            self._captured_batches.append(captured_inputs.tensors_of(batch, most))
            if most is not None:
                batch = captured_inputs.fill(batch, self._captured_batches[-1])
        elif self._feeds:
            batch = self._feed_batch(batch, number)
        if self._plan.double:
            batch = batches.map_tensors(batch, model_variants.make_double)
        captured_inputs.seed_everything(self._seed + 1000 * (number + 1))
        return batch

    def forward(self, module: Any, inputs: Any) -> None:
        """Keeps the shapes that reach a model: all that tells the batch of a script without a loader."""
        if self._plan.eager_draws and not self._undo:  # before the first call, which compiles
            self._undo.append(model_variants.as_eager())
        import torch

        # Evaluation between two steps is no training.
        trains = torch.is_grad_enabled() and any(module is model for model in self._hooks.models)
        if self._state == "capturing" and trains:
            self._step["shapes"].append(batches.shapes(inputs))

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """Keeps the loss, and the norm of the gradients before anything is done to them."""
        result = run()
        if self._state == "capturing":
            import torch

            roots = root if isinstance(root, (list, tuple)) else [root]
            values = [float(root.detach().double().sum()) for root in roots if isinstance(root, torch.Tensor)]
            self._step["losses"] += [sum(values)] if values else []
            self._norms_before = {
                id(optimizer): tensor_summary.norm_of_gradients(_parameters_of(optimizer))
                for optimizer in self._hooks.optimizers
            }
        return result

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """Lets `_before_step` see the optimizer's own step, inside whatever a change has put around it."""
        self._stepping = optimizer
        try:
            result = run()
            if self._state == "capturing" and self._stepping is not None:
                self._keep_gradients(optimizer)  # those of the last call of a closure
            return result
        finally:
            self._stepping = None

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Keeps the gradients that this optimizer sees. A hook of torch's, before every step."""
        has_closure = len(args) > 1 or kwargs.get("closure") is not None
        if self._state == "capturing" and optimizer is self._stepping and not has_closure:
            self._stepping = None  # a subclass that calls its parent's step is hooked twice
            self._keep_gradients(optimizer)

    def _keep_gradients(self, optimizer: Any) -> None:
        scale = getattr(optimizer, "grad_scale", None)
        factor = 1.0 if scale is None else 1.0 / float(scale)
        names = {id(tensor): name for name, tensor in self._name_tensors()[0].items()}
        gradients = {}
        for parameter in _parameters_of(optimizer):
            if parameter.grad is not None and id(parameter) in names:
                gradient = parameter.grad if factor == 1.0 else parameter.grad * factor
                gradients[names[id(parameter)]] = tensor_summary.summary(gradient, self._stride)
        step = self._step
        step["gradients"] |= gradients
        step["norm"].append(sum(gradient["norm"] ** 2 for gradient in gradients.values()) ** 0.5)
        step["norm_before"].append(self._norms_before.get(id(optimizer), 0.0) * factor)
        step["rates"] += [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        step["optimizer_steps"] += 1

    def clip(self, norm: Any) -> None:
        """Keeps the norm that gradients are clipped from."""
        if self._state == "capturing" and norm is not None:
            self._step["clipped_from"].append(float(norm))

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Begins, keeps a step, ends."""
        if self._reads_samples:
            return
        if self._state == "capturing":
            if ended and not self._leads:
                groups = tensor_summary.groups(*self._name_tensors(), self._hooks.optimizers)
                kept = {name: tensor_summary.summaries(each, self._stride) for name, each in groups.items()}
                self._steps.append(self._step | kept)
            self._leads = False
            if len(self._steps) >= self._plan.steps:
                self._state = "done"
                self._hooks.stop()
            self._restore()
        elif self._state == "waiting" and begins:
            if self._plan.samples is not None:
                self._read_samples(self._plan.samples)
                self._state = "done"
            else:
                self._begin()
        if self._state == "done":
            self._hooks.stop()
        if self._state == "capturing":
            self._step, self._norms_before = _empty_step(), {}
            captured_inputs.seed_everything(self._seed + len(self._steps))

    def finish(self) -> None:
        """Gives everything back, writes what was captured, and sends the comparison."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        captured = {
            "steps": self._steps,
            "start": self._start,
            "settings": self._settings,
            "data": self._data,
            "fed": self._feeds or self._makes_capture,
            "restored": bool(self._initial),
        }
        if self._plan.write:
            captured_inputs.write(self._plan.write, captured)
        if self._makes_capture and self._plan.batches and len(self._steps) >= self._plan.steps:
            inputs = {"batches": self._captured_batches, "state": self._initial}
            captured_inputs.write(self._plan.batches, inputs)
        messages.write(self._folder, self._comparison(captured))

    # How it begins.

    def _begin(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._state = "capturing"
        self._leads = self._hooks.steps.ends_with_optimizer
        models, optimizers = self._hooks.models, self._hooks.optimizers
        captured_inputs.forget_histories(optimizers)
        self._undo.append(register_optimizer_step_pre_hook(self._before_step).remove)
        self._undo.append(model_variants.independent_of_layout())
        path = self._plan.batches
        if path and Path(path).exists():
            inputs = captured_inputs.read(path)
            self._fed, self._feeds, self._initial = inputs["batches"], True, inputs["state"]
        elif path:
            self._makes_capture = True
            groups = tensor_summary.groups(*self._name_tensors(), optimizers)
            for group, tensors in groups.items():
                self._initial[group] = {name: each.detach().cpu().clone() for name, each in tensors.items()}
        if self._plan.rounds:
            self._undo.append(model_variants.round_models(models, self._plan.rounds, self._plan.draw))
        if self._plan.double:
            self._undo.append(model_variants.to_double(models, optimizers))
        self._restore()
        parameters, buffers = self._name_tensors()
        self._stride = tensor_summary.stride(parameters, buffers, self._plan.steps)
        running = {name: each for name, each in buffers.items() if name.endswith(comparison.RUNNING)}
        self._start = tensor_summary.summaries({**parameters, **running}, self._stride)
        self._settings = [
            model_variants.settings(group) for optimizer in optimizers for group in optimizer.param_groups
        ]

    def _restore(self) -> None:
        """Begin every step with the state in which the first began."""
        if not self._initial:
            return
        parameters, buffers = self._name_tensors()
        captured_inputs.forget_histories(self._hooks.optimizers)
        names = captured_inputs.put_back(self._initial, parameters, buffers, self._hooks.optimizers)
        for name in names[:10]:
            self._note(f"{name} is not in the capture, or of another shape")

    def _name_tensors(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return tensor_summary.name_all(self._hooks.models, self._hooks.optimizers)

    def _feed_batch(self, batch: Any, number: int) -> Any:
        """The captured batch in place of this one; the loader's own if it does not fit."""
        try:
            if number < len(self._fed):
                return captured_inputs.fill(batch, self._fed[number])
            self._note("the loop took more batches than were captured: the last ones are the loader's own")
        except captured_inputs.DoesNotFit as error:
            self._note(f"the loader's own batches were used: {error}")
        self._feeds = False
        return batch

    def _read_samples(self, most: int) -> None:
        self._reads_samples = True
        read = partial(captured_inputs.epoch, seed=self._seed, most=most)
        try:
            for loader in self._hooks.loaders:
                self._data.append(read(loader, converted=partial(self._hooks.changes.replace_value, "input")))
        finally:
            self._reads_samples = self._leads = False

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _comparison(self, captured: dict[str, Any]) -> NumericsComparison:
        base, reference = self._read("compare"), self._read("reference")
        document: dict[str, Any] = {
            "steps": len(self._steps),
            "planned": self._plan.steps if self._plan.samples is None else 0,
            "fed": captured["fed"],
            "restored": captured["restored"],
            "notes": self._notes,
            "refused": list(self._hooks.refused),
            "candidate": _without_tensors(captured),
            "base": _without_tensors(base),
            "reference": _without_tensors(reference),
            "data": {"candidate": self._data, "base": base["data"] if base else []},
        }
        if base is not None and captured["steps"] and base["steps"]:
            document |= comparison.compare(captured, base, reference)
        return wire_format.build(NumericsComparison, comparison.finite(document))

    def _read(self, role: str) -> dict[str, Any] | None:
        path = getattr(self._plan, role)
        if not path:
            return None
        try:
            return captured_inputs.read(path)
        except Exception as error:  # damaged in whatever way: then nothing is known, and a note says so
            self._note(f"{role} cannot be read: {type(error).__name__}: {error}"[:200])
            return None


def _empty_step() -> dict[str, Any]:
    """Fields of `messages.CapturedStep` that grow during a step, and its gradients."""
    names = ("losses", "rates", "norm", "norm_before", "clipped_from", "shapes")
    lists: dict[str, Any] = {name: [] for name in names}
    return {**lists, "gradients": {}, "optimizer_steps": 0, "samples": 0}


def _without_tensors(captured: dict[str, Any] | None) -> dict[str, Any]:
    """Fields of `messages.CapturedRun`."""
    if captured is None:
        return {}
    steps = []
    for step in captured["steps"]:
        plain = {name: value for name, value in step.items() if name not in comparison.GROUPS}
        bad = {name: sum(each["bad"] for each in step[name].values()) for name in comparison.GROUPS}
        steps.append({**plain, "loss": sum(step["losses"]) if step["losses"] else None, "bad": bad})
    return {"steps": steps, "settings": captured["settings"]}


def _parameters_of(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
