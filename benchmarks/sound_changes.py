"""How often is a sound change refused by the gate of `laptime tune MODEL`?

Folding and channels_last on untrained vision models with settled batch norms. Every model is changed
in this process, without the export, and its outputs are judged as a session judges them. At most 2 % may be
refused.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from _shown import head, parser, table, write
from laptime.backends.torch.tensors import arrays
from laptime.measure.recorded_calls import RecordedCalls, record
from laptime.tuning.inference import arm_process
from laptime.tuning.inference.draft import Draft, Refused, by_position, opened
from laptime.tuning.inference.implementation import load
from laptime.tuning.inference.sameness import sameness

TORCHVISION = (
    *("alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet0_5", "mnasnet1_0"),
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "regnet_x_400mf", "regnet_y_400mf"),
    *("resnet18", "resnet34", "resnet50", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_1"),
    *("vgg11_bn", "wide_resnet50_2", "resnext50_32x4d", "efficientnet_v2_s"),
)
TIMM = (
    *("ghostnet_100", "lcnet_050", "mixnet_s", "mobilenetv3_small_100", "regnety_002", "resnet18d"),
    *("tf_efficientnet_lite0", "hardcorenas_a"),
)
EVERY = [*(f"torchvision:{name}" for name in TORCHVISION), *(f"timm:{name}" for name in TIMM)]
LIMIT = 0.02
"""Share of sound changes that may be refused."""
CHANGES = ("channels_last", "fold_batch_norm")


def verdicts(target: str) -> dict[str, str]:
    """The word of the gate, by change; `cannot` where the change cannot be made."""
    model = opened(target)
    module, inputs = by_position(model, 2)

    def run(given: list[Any]) -> list[Any]:
        with torch.no_grad():
            return arrays(module(*map(torch.from_numpy, given)))

    recorded = record(run, lambda batch: arrays(by_position(model, batch)[1]), [2, 1])
    words = {}
    for name in CHANGES:
        draft = Draft(copy.deepcopy(module), list(inputs), [True] * len(inputs), None, Path())
        try:
            load(name).apply(draft, {})
        except Refused:
            words[name] = "cannot"
            continue
        words[name] = _word(draft.module, recorded)
    return words


def _word(module: Any, recorded: RecordedCalls) -> str:
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        calls, made = Path(folder) / "calls.npz", Path(folder) / "made.npz"
        recorded.save(calls)
        answer = arm_process.outputs(module, arm_process.inputs_in(calls), str(made))
        gate, _ = sameness(recorded, made, answer, numerics="reassociated", precision="")
    return gate.word if gate.word == "passed" else f"{gate.word}: {gate.reason}"


def main() -> int:
    """Print the table; 1 when too many were refused."""
    options = parser(__doc__ or "")
    options.add_argument("targets", nargs="*", default=EVERY, metavar="TARGET")
    asked = options.parse_args()
    data: dict[str, Any] = {**head("Sound changes"), "limit": LIMIT, "rows": {}}
    for target in asked.targets:
        data["rows"][target] = verdicts(target)
        write(asked.json, data)
    table(("model", *CHANGES), [(target, *words.values()) for target, words in data["rows"].items()])
    words = [word for row in data["rows"].values() for word in row.values() if word != "cannot"]
    refused = sum(word != "passed" for word in words)
    print(f"\n{refused} of {len(words)} sound changes refused")
    return int(refused > LIMIT * len(words))


if __name__ == "__main__":
    sys.exit(main())
