"""Gate: what a training step does, witnessed under a recipe, and compared with the script as it is.

It begins between two steps, when the first one is over: then models, optimizers and their state are all
there. Then
    seeds       torch, random, numpy: anew for each batch and step, so that nobody's draws shift another's
    state       of models and optimizers is written into what is here, from the capture, before every step:
                each is a first one, on another batch. Rounding errors that later steps have amplified would
                tell nothing: a ResNet-18 at a rate of 0.1 turned its gradients by 5 degrees in three steps
    batches     of the capture are fed, inside the batches that the loader gives here (`captured_inputs`)
    steps       are run as the script runs them, and looked at
A capture is what the first run leaves, of the script as it is: `gate["batches"]` names its file, which is
made when it is not there. Without the name the loader's own batches are used, and steps follow each other.

`TrialPlan.gate`:
    write       path of this run's witness (torch.save: plain values and tensors only)
    batches     path of the capture, see above
    most        samples of each captured batch at most: a reference in double precision has no fast kernels
                for convolutions. None: all
    compare     path of the base's witness; reference: of one with "double"
    steps       to be witnessed; 3
    dropout     False: modules that drop out have p = 0
    double      everything in double precision: the reference. Tensor.float gives doubles then, too
    rounds      "bfloat16", "float16": activations and their gradients are rounded to it, module by module:
                how far this precision turns the gradients of this model; "last_bits": by the last bits of
                their own type, as another order of summation does (`gates.numeric`)
    samples     True or a number: the loader alone is run for so many batches, an epoch at most
                (`loader_samples`); nothing is trained
gate.json has, by step, for candidate, base and reference: loss (what backward began from, added up), rates
(learning rate of each group), optimizer_steps, samples (effective batch), norm (of the gradients when the
optimizer stepped), norm_before (when the last backward pass ended), clipped_from (norms that the script
asked torch to clip), bad (non-finite values by group). And `settings` of optimizers, the rows of
`comparison`, `data` of `loader_samples`.

Gradients are those that the optimizer's own step sees: after unscaling and clipping. Batch sizes are those
that loaders give, whatever is fed.
Lies when: the script draws random numbers in another order under the recipe (a GAN's noise is seeded by
batch, so it does not), or keeps state of its own outside of models and optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from laptime.tuning.trial import batches, result
from laptime.tuning.trial.numerics import (
    captured_inputs,
    comparison,
    loader_samples,
    model_variants,
    tensor_summary,
)
from laptime.tuning.trial.plan import TrialPlan
from laptime.tuning.trial.trial_mode import TrialMode

STEPS = 3
SEED = 20_240_229


class NumericsCapture(TrialMode):
    """Mode gate."""

    def __init__(self, plan: TrialPlan, hooks: Any) -> None:
        self._plan, self._hooks, self._gate = plan, hooks, plan.gate
        self._wanted = int(self._gate.get("steps", STEPS))
        self._seed = SEED if plan.seed is None else plan.seed
        self._state = "waits"  # then witnesses, done
        self._busy = False
        self._fed: list[list[Any]] = []
        self._taken: list[list[Any]] = []
        self._feeds = self._captures = False
        self._fetches = 0
        self._start: dict[str, Any] = {}
        self._initial: dict[str, Any] = {}
        self._steps: list[dict[str, Any]] = []
        self._settings: list[dict[str, Any]] = []
        self._data: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._undo: list[Callable[[], None]] = []
        self._every = 1
        self._awaited: Any = None
        self._open: dict[str, Any] = _open_step()

    # What the loop does.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """The batch of the capture, in the shape of the loader's own."""
        if self._state != "witnesses" or self._busy or not self._trains(loader):
            return take()
        batch = take()
        self._open["samples"] += batches.size(batch)
        number = self._fetches
        self._fetches += 1
        if self._captures:
            most = self._gate.get("most")
            self._taken.append(captured_inputs.keep(batch, most))
            batch = batch if most is None else captured_inputs.given_back(batch, self._taken[-1])
        elif self._feeds:
            batch = self._swapped(batch, number)
        if self._gate.get("double"):
            batch = batches.mapped(batch, model_variants.doubled)
        captured_inputs.seed_everything(self._seed + 1000 * (number + 1))
        return batch

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """Keeps the loss, and the norm of the gradients before anything is done to them."""
        found = run()
        if self._state == "witnesses":
            self._open["losses"] += _values(root)
            self._open["before"] = {
                id(each): tensor_summary.norm_of_gradients(_parameters_of(each))
                for each in self._hooks.optimizers
            }
        return found

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """The optimizer's own step, inside whatever a change has put around it, is seen by `_stepping`."""
        self._awaited = optimizer
        try:
            return run()
        finally:
            self._awaited = None

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Keeps the gradients that this optimizer sees. A hook of torch's, before every step."""
        if self._state != "witnesses" or optimizer is not self._awaited:
            return
        self._awaited = None  # a subclass that calls its parent's step is hooked twice
        opened = self._open
        scale = getattr(optimizer, "grad_scale", None)
        factor = 1.0 if scale is None else 1.0 / float(scale)
        names = {id(tensor): name for name, tensor in self._named()[0].items()}
        gradients = {}
        for parameter in _parameters_of(optimizer):
            if parameter.grad is not None and id(parameter) in names:
                own = parameter.grad if factor == 1.0 else parameter.grad * factor
                gradients[names[id(parameter)]] = tensor_summary.kept(own, self._every)
        opened["gradients"] |= gradients
        opened["norm"].append(sum(each["norm"] ** 2 for each in gradients.values()) ** 0.5)
        opened["norm_before"].append(opened["before"].get(id(optimizer), 0.0) * factor)
        opened["rates"] += [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        opened["optimizer_steps"] += 1

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Begins, keeps a step, ends."""
        if self._busy:
            return
        if self._state == "witnesses" and ended:
            self._close()
            if len(self._steps) >= self._wanted:
                self._state = "done"
                self._hooks.stop()
            self._restore()
        elif self._state == "waits" and begins:
            if self._gate.get("samples"):
                self._look_at_samples()
                self._state = "done"
                self._hooks.stop()
            else:
                self._begin()
        elif self._state == "done":
            self._hooks.stop()
        if self._state == "witnesses":
            self._open = _open_step()
            captured_inputs.seed_everything(self._seed + len(self._steps))

    def finish(self) -> None:
        """Gives everything back, writes the witness, and gate.json when there is something to compare."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        witness = self._witness()
        if self._gate.get("write"):
            captured_inputs.write(self._gate["write"], witness)
        if self._captures and len(self._steps) >= self._wanted:
            captured = {"batches": self._taken, "state": self._initial}
            captured_inputs.write(self._gate["batches"], captured)
        result.write(self._plan.folder, "gate.json", comparison.plain(self._document(witness)))

    # How it begins.

    def _begin(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._state = "witnesses"
        self._undo.append(register_optimizer_step_pre_hook(self._stepping).remove)
        self._undo.append(
            model_variants.watched_clipping(lambda norm: self._open["clipped_from"].append(norm))
        )
        path = self._gate.get("batches")
        parameters, buffers = self._named()
        optimizers = self._hooks.optimizers
        if path and Path(path).exists():
            stored = captured_inputs.read(path)
            self._fed, self._feeds, self._initial = stored["batches"], True, stored["state"]
        elif path:
            self._captures = True
            self._initial = captured_inputs.state_of(parameters, buffers, optimizers)
        if self._gate.get("dropout") is False:
            self._undo += [
                model_variants.without_dropout(tensor_summary.unwrapped(each)) for each in self._hooks.models
            ]
        if self._gate.get("rounds"):
            self._undo.append(model_variants.rounded(self._hooks.models, self._gate["rounds"]))
        if self._gate.get("double"):
            default, single = torch.get_default_dtype(), torch.Tensor.float
            self._undo.append(lambda: torch.set_default_dtype(default))
            self._undo.append(lambda: setattr(torch.Tensor, "float", single))
            model_variants.to_double(self._hooks.models, optimizers)
        self._restore()
        parameters, buffers = self._named()
        self._every = tensor_summary.stride(parameters, buffers, self._wanted)
        self._start = {name: tensor_summary.kept(each, self._every) for name, each in parameters.items()}
        self._settings = [
            model_variants.settings(group) for each in optimizers for group in each.param_groups
        ]

    def _restore(self) -> None:
        """Every step begins where the first began: errors that grow from step to step are nobody's fault."""
        if not self._initial:
            return
        parameters, buffers = self._named()
        for name in captured_inputs.put_back(self._initial, parameters, buffers, self._hooks.optimizers)[:10]:
            self._note(f"{name} is not in the capture, or of another shape")

    def _named(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return tensor_summary.named(self._hooks.models, self._hooks.optimizers)

    def _trains(self, loader: Any) -> bool:
        """Whether these batches go into training; of a loader that nobody has told us of they do."""
        known = self._hooks.loaders
        return not known or any(loader is each for each in known)

    def _swapped(self, batch: Any, number: int) -> Any:
        """The captured batch in place of this one; the loader's own where it does not fit."""
        if number >= len(self._fed):
            self._feeds = False
            self._note("more batches were asked for than were captured: the last ones are the loader's own")
            return batch
        try:
            return captured_inputs.given_back(batch, self._fed[number])
        except captured_inputs.DoesNotFit as error:
            self._feeds = False
            self._note(f"the loader's own batches were used: {error}")
            return batch

    # What is kept.

    def _close(self) -> None:
        opened = self._open
        parameters, buffers = self._named()
        groups = {
            "gradients": opened["gradients"],
            "parameters": {name: tensor_summary.kept(each, self._every) for name, each in parameters.items()},
            "buffers": {name: tensor_summary.kept(each, self._every) for name, each in buffers.items()},
            "optimizer": {
                name: tensor_summary.kept(each, self._every)
                for name, each in tensor_summary.states(self._hooks.optimizers, parameters).items()
            },
        }
        names = ("losses", "rates", "optimizer_steps", "samples", "norm", "norm_before", "clipped_from")
        self._steps.append({**{name: opened[name] for name in names}, **groups})

    def _look_at_samples(self) -> None:
        most = self._gate["samples"]
        limit = loader_samples.BATCHES if most is True else int(most)
        self._busy = True
        try:
            for loader in self._hooks.loaders:
                self._data.append(loader_samples.epoch(loader, seed=self._seed, most=limit))
        finally:
            self._busy = False

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _witness(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "start": self._start,
            "settings": self._settings,
            "data": self._data,
            "double": bool(self._gate.get("double")),
            "fed": self._feeds or self._captures,
            "apart": bool(self._initial),
        }

    def _document(self, mine: dict[str, Any]) -> dict[str, Any]:
        base = self._read("compare")
        reference = self._read("reference")
        found: dict[str, Any] = {
            "steps": len(self._steps),
            "asked": 0 if self._gate.get("samples") else self._wanted,
            "fed": mine["fed"],
            "apart": mine["apart"],
            "sampled": self._every,
            "notes": self._notes,
            "refused": list(self._hooks.refused),
            "candidate": _told(mine),
            "base": _told(base),
            "reference": _told(reference),
            "data": {"candidate": self._data, "base": base["data"] if base else []},
        }
        if base is not None and mine["steps"] and base["steps"]:
            found |= comparison.compared(mine, base, reference)
        return found

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self._gate.get(name)
        if not path:
            return None
        try:
            return captured_inputs.read(path)
        except Exception as error:  # damaged in whatever way: then nothing is known, and it is said
            self._note(f"{name} cannot be read: {type(error).__name__}: {error}"[:200])
            return None


def _open_step() -> dict[str, Any]:
    return {
        "losses": [],
        "gradients": {},
        "norm": [],
        "before": {},
        "norm_before": [],
        "clipped_from": [],
        "rates": [],
        "optimizer_steps": 0,
        "samples": 0,
    }


def _told(witness: dict[str, Any] | None) -> dict[str, Any]:
    """What gate.json says of a witness without its tensors."""
    if witness is None:
        return {"steps": [], "settings": []}
    steps = []
    for step in witness["steps"]:
        own = {name: value for name, value in step.items() if name not in comparison.GROUPS}
        bad = {name: sum(each["bad"] for each in step[name].values()) for name in comparison.GROUPS}
        steps.append({**own, "loss": sum(step["losses"]) if step["losses"] else None, "bad": bad})
    return {"steps": steps, "settings": witness["settings"]}


def _parameters_of(optimizer: Any) -> list[Any]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _values(root: Any) -> list[float]:
    """The loss of a backward pass: the sum of the tensors that it began from."""
    import torch

    roots = root if isinstance(root, (list, tuple)) else [root]
    found = [float(each.detach().double().sum()) for each in roots if isinstance(each, torch.Tensor)]
    return [sum(found)] if found else []
