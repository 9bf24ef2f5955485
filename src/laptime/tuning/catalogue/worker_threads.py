"""One thread in each loader worker for OpenCV and for the BLAS and OpenMP that NumPy and SciPy use.

torch runs its own operators with one thread in a worker; other libraries start one per core in every worker,
and workers then fight over the cores.

Source: OpenCV documentation of `cv2.setNumThreads`; threadpoolctl's documentation; albumentations,
"Frequently Asked Questions".
Lies when: one worker has to decode very large images: it may then want more than one thread."""

import sys
from functools import partial
from typing import Any

from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options

LIMITS = {
    "cv2": ("import cv2", "cv2.setNumThreads(0)"),
    "threadpoolctl": ("import threadpoolctl", "threadpoolctl.threadpool_limits(1)"),
}
"""How each library is limited: what is imported, what is called."""


def look(hooks: Any) -> list[str]:
    """Which of these the script has loaded; threadpoolctl counts once there is a pool of several threads."""
    control = sys.modules.get("threadpoolctl")
    pools = [] if control is None else control.threadpool_info()
    threads = [pool.get("num_threads", 1) for pool in pools if pool.get("prefix") != "libgomp"]
    found = {"cv2": "cv2" in sys.modules, "threadpoolctl": max(threads, default=1) > 1}
    return [name for name, is_found in found.items() if is_found]


def propose(loop_profile: LoopProfile) -> list[Options]:
    libraries = [name for name in loop_profile.details.get("worker_threads") or () if name in LIMITS]
    return [{"libraries": libraries}] if libraries else []


def why_not(loop_profile: LoopProfile) -> str:
    return "" if propose(loop_profile) else "no library with threads of its own is loaded beside torch"


def limit(libraries: list[str], worker: int) -> None:
    """One thread for each of these libraries that this process has loaded."""
    cv2: Any = sys.modules.get("cv2")
    if "cv2" in libraries and cv2 is not None:
        cv2.setNumThreads(0)
    control: Any = sys.modules.get("threadpoolctl")
    if "threadpoolctl" in libraries and control is not None:
        control.threadpool_limits(1)


def apply(loop: Any, options: Options) -> None:
    """Apply it in every worker, before the script's own worker_init_fn."""
    loop.worker(partial(limit, list(options["libraries"])))


def edit(script: Any, options: Options) -> None:
    """A `worker_init_fn`, if the script has none of its own."""
    if script.argument("loader", "worker_init_fn") is not None:
        raise CannotEdit("the loader has a worker_init_fn already: limit the threads in there")
    chosen = [LIMITS[name] for name in options["libraries"]]
    body = "\n".join(f"    {call}" for _, call in chosen)
    code = f'def limit_threads(worker):\n    """One thread for each loader worker."""\n{body}\n'
    script.define(code, *(statement for statement, _ in chosen))
    script.set_arguments("loader", worker_init_fn="limit_threads")


OPTIMIZATION = Optimization(
    title="one thread for other libraries in each worker",
    numerics="reassociated",
    saves={"data": 1.0},
    needs=frozenset({"loader", "workers"}),
    prior=0.4,
    propose=propose,
    why_not=why_not,
    look=look,
    example=["cv2", "threadpoolctl"],
    apply=apply,
    edit=edit,
)
