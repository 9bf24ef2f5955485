"""A busy neighbour: burns one core on and off in random bursts until it is ended, or its parent is gone.

python benchmarks/_burn.py SEED
"""

from __future__ import annotations

import os
import random
import sys
import time

SHORTEST, LONGEST = 0.2, 2.0  # seconds of a burst, and of a pause


def main(seed: int) -> None:
    """Burst, pause, burst ..."""
    dice = random.Random(seed)
    parent = os.getppid()
    while os.getppid() == parent:
        end = time.monotonic() + dice.uniform(SHORTEST, LONGEST)
        while time.monotonic() < end:
            pass
        time.sleep(dice.uniform(SHORTEST, LONGEST))


if __name__ == "__main__":
    main(int(sys.argv[1]))
