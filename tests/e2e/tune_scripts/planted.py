"""What makes the scripts beside this one slow: every optimizer's step waits, until it is a fused one."""

import os
import time

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

torch.set_num_threads(1)
WAIT = float(os.environ.get("PLANTED_WAIT", "0.006"))
"""Seconds that a step waits."""


def _wait(optimizer, args, kwargs):
    if not optimizer.param_groups[0].get("fused"):
        time.sleep(WAIT)


register_optimizer_step_pre_hook(_wait)
