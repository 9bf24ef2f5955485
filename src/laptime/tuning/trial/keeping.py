"""What models and optimizers of this process are, kept, and given back."""

from __future__ import annotations

import copy
import gc
import sys
from typing import Any


class Kept:
    """State of a model now, and of every optimizer at its next step. `give_back` ends it."""

    def __init__(self, model: Any) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._model = model
        self._state = copy.deepcopy(model.state_dict())
        self._modes = [(module, module.training) for module in model.modules()]
        self._gradients = [(each, each.grad) for each in model.parameters()]
        self._optimizers: dict[int, tuple[Any, Any]] = {}
        self._handle = register_optimizer_step_pre_hook(self._stepping)

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = optimizer, copy.deepcopy(optimizer.state_dict())

    def give_back(self) -> None:
        """Values, modes, gradients and optimizer state are as they were."""
        self._handle.remove()
        self._model.load_state_dict(self._state)
        for module, training in self._modes:
            module.training = training
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        for optimizer, state in self._optimizers.values():
            optimizer.load_state_dict(state)


def optimizers() -> list[Any]:
    """Every torch optimizer that is alive in this process; none before torch is imported."""
    module: Any = sys.modules.get("torch.optim")
    if module is None:
        return []
    # By type: asking a proxy for its class makes it do things.
    return [each for each in gc.get_objects() if issubclass(type(each), module.Optimizer)]
