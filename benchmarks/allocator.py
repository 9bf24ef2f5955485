"""What do memory that is kept, huge pages and channels_last do to a training step on the CPU?

A small network of convolutions is trained in a fresh process for each change, the changes in random order,
round after round. Each is applied by its own file of the catalogue. A ratio is within one round: what else
happens on the machine happens to all of a round.

    step     median seconds of a step
    ratio    of this step to the one as it is, in the same round; median over the rounds
    faults   page faults of a step
    peak     bytes of the process
    loss     after the steps, to the last bit: the same as without the change?

`--width`, `--batch` and `--size` make it larger: its largest block has width x batch x size x size x 4 bytes.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from _harness import head, parser, shown, table, write
from laptime.tuning import optimization
from laptime.tuning.trial.loop import Loop

ARMS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "allocator": ("allocator",),
    "huge_pages": ("huge_pages",),
    "allocator + huge_pages": ("allocator", "huge_pages"),
    "channels_last": ("channels_last",),
    "allocator + channels_last": ("allocator", "channels_last"),
}
SETTLE = 4


def trained(arm: str, width: int, batch: int, size: int, steps: int) -> dict[str, float]:
    """Train in this process under one arm: seconds and faults of a step, peak bytes, the last loss."""
    import torch
    from torch import nn

    loops = [(name, Loop(device="cpu")) for name in ARMS[arm]]
    for name, loop in loops:
        optimization.load(name).apply(loop, {})
    torch.manual_seed(0)
    net = nn.Sequential(
        *[nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()],
        *[nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()],
        *[nn.Conv2d(2 * width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU()],
        *[nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10)],
    )
    images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _, loop in loops:
        loop.meet("model", net)
        loop.meet("optimizers", optimizer)
    seconds, faults, last = [], [], 0.0
    for _ in range(SETTLE + steps):
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        last = loss.item()
    return {
        "seconds": statistics.median(seconds[SETTLE:]),
        "faults": statistics.median(faults[SETTLE:]),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": last,
    }


def rounds(number: int, shape: list[str]) -> list[dict[str, dict[str, float]]]:
    """One fresh process for each arm and round."""
    chance = random.Random(0)
    found = []
    for _ in range(number):
        row = {}
        for arm in chance.sample(list(ARMS), len(ARMS)):
            command = [sys.executable, __file__, "--arm", arm, *shape]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            row[arm] = json.loads(told.stdout)
        found.append(row)
    return found


def main() -> int:
    """Print the table; 1 when a change that is said to be exact is not."""
    options = parser(__doc__ or "")
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--width", type=int, default=32)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--size", type=int, default=112)
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--arm", choices=list(ARMS), help="run this one here, and print it as JSON")
    asked = options.parse_args()
    if asked.arm:
        print(json.dumps(trained(asked.arm, asked.width, asked.batch, asked.size, asked.steps)))
        return 0
    shape = [f"--{name}={getattr(asked, name)}" for name in ("width", "batch", "size", "steps")]
    data: dict[str, Any] = head("Memory that is kept, huge pages, channels_last")
    found = data["rounds"] = rounds(asked.rounds, shape)
    rows, broken = [], []
    for arm, names in ARMS.items():
        mine, base = [row[arm] for row in found], [row["as it is"] for row in found]
        ratios = [each["seconds"] / other["seconds"] for each, other in zip(mine, base, strict=True)]
        same = all(each["loss"] == other["loss"] for each, other in zip(mine, base, strict=True))
        if not same and all(optimization.load(name).numerics == "exact" for name in names):
            broken.append(arm)
        rows.append(
            [
                arm,
                shown([each["seconds"] for each in mine], factor=1e3, unit="ms", digits=1),
                shown(ratios, factor=1, unit=""),
                f"{statistics.median(each['faults'] for each in mine):.0f}",
                f"{statistics.median(each['peak'] for each in mine) / 1e6:.0f} MB",
                "yes" if same else "no",
            ]
        )
    table(["change", "step", "ratio", "faults", "peak", "same loss"], rows)
    write(asked.json, data)
    print(f"\nexact changes: {'NOT EXACT: ' + ', '.join(broken) if broken else 'exact'}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
