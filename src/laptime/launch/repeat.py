"""A target called again and again until somebody stops it: the script behind `laptime profile TARGET`."""

from __future__ import annotations

import argparse

from laptime import targets
from laptime.kit.registry import load
from laptime.records.plan import Variant


def main() -> None:
    """Open the target of the command line, and call it for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    recipe = targets.parse(asked.target)
    variant = Variant(target=asked.target, backend=recipe.backend, device=asked.device, dtype=asked.dtype)
    model = load("backends", recipe.backend).open(variant)
    work = model.workload(asked.batch)
    with model.scope():
        while True:
            work.call()


if __name__ == "__main__":
    main()
