"""The script behind `laptime profile TARGET`: it calls the target again and again until it is stopped."""

import argparse

from laptime import targets
from laptime.kit.registry import load
from laptime.measure.protocol import TellsInputs
from laptime.records.plan import Variant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    recipe = targets.parse(options.target)
    variant = Variant(
        target=options.target, backend=recipe.backend, device=options.device, dtype=options.dtype
    )
    model = load("backends", recipe.backend).open(variant)
    own = model.own_batch() if isinstance(model, TellsInputs) else 1
    work = model.workload(options.batch or own or 1)
    with model.scope():
        while True:
            work.call()


if __name__ == "__main__":
    main()
