"""How many threads an operator uses on the CPU: more than there are free cores is slow.

Threads between operators (torch.set_num_interop_threads) are left alone: eager training does not use them.

Source: "CPU threading and TorchScript inference", PyTorch manual; torch.set_num_threads.
Lies when: other processes come and go on the machine."""

from typing import Any

from laptime.tuning.optimization import LoopProfile, Optimization, Options

JOIN = 50e-6
"""Seconds that sharing an operator among threads costs at most: two of them that have a core each took less
than 10 us here; more of them, and sleeping ones, take longer."""
MOST = 12  # options at most: beyond, only every second, fourth ... count is tried.


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Propose every count up to the usable cores but the present one, nearest first: the search walks in this
    order."""
    if why_not(loop_profile):
        return []
    every = range(1, max(loop_profile.cpus, 1) + 1)
    stride = -(-len(every) // MOST)
    counts = {1, loop_profile.cpus, *every[stride - 1 :: stride]} - {loop_profile.threads}
    ordered = sorted(counts, key=lambda count: (abs(count - loop_profile.threads), -count))
    return [{"threads": count} for count in ordered]


def why_not(loop_profile: LoopProfile) -> str:
    """On a device, threads make samples only if the script's own process reads them."""
    if loop_profile.device.split(":")[0] == "cpu":
        is_single = loop_profile.cpus <= 1 and loop_profile.threads <= 1
        return "there is one core, and one thread" if is_single else ""
    if "workers" not in loop_profile.facts and loop_profile.share("data") > 0.1 * loop_profile.step > 0:
        return ""
    return "the model is on a device, and the loader's workers have one thread each"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """More threads: the work of those that there are, shared among more. Fewer: a third of the computing,
    which is what waiting for threads without a core was seen to cost, or all that are too many; and of
    waiting for workers that have no core. If each has a core, what sharing the counted operators costs,
    and a twentieth for caches that they share."""
    compute = loop_profile.share("forward", "backward", "optimizer")
    count, present = int(options["threads"]), max(loop_profile.threads, 1)
    if loop_profile.device.split(":")[0] != "cpu":
        return max(loop_profile.share("data") * (1 - present / count if count > present else 0.5), 0.0)
    if count > present:
        return compute * (1 - present / count)
    too_many = max(1 - loop_profile.cpus / present, 0.0)
    operators = loop_profile.detail("operators", "count", None)
    if operators is not None and not too_many and "workers" not in loop_profile.facts:
        return float(min(compute / 3, JOIN * operators + compute / 20))
    return max(1 / 3, 0.9 * too_many) * compute + 0.5 * loop_profile.share("data")


def apply(loop: Any, options: Options) -> None:
    """With the first call of the model, when a call of the same switch at the script's start is over; loader
    workers keep their one thread."""

    def switch(model: Any) -> Any:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(int(options["threads"]))
        return lambda: torch.set_num_threads(before)

    loop.model(switch)


OPTIMIZATION = Optimization(
    title="threads of an operator",
    numerics="reassociated",
    saves=bound,
    live=True,
    prior=0.3,
    risky=True,
    propose=propose,
    why_not=why_not,
    apply=apply,
    # One line behind the optimizer: the script may have set another number at its start.
    edit=lambda script, options: script.after_optimizer(f"torch.set_num_threads({int(options['threads'])})"),
)
