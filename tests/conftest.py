"""For every test: `make test` draws the same examples each time, `make test-all` looks for new ones.

`make test` runs two workers. Tests in `REAL` read real clocks, so each of them runs alone. Others have
a scripted clock, or ask for nothing that a busy machine changes.
"""

import fcntl
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

REAL = re.compile(
    r"e2e/(?!test_(cli|load|tune)_bad_input)|contract/test_(conformance|documented_python|extensions|next_lines_run)"
)

settings.register_profile("same examples", derandomize=True)
settings.register_profile("new examples", derandomize=False)
settings.load_profile("same examples")
# Processes that tests start in folders of their own find the same laptime as the tests.
os.environ["PYTHONPATH"] = os.pathsep.join(
    map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
)


def pytest_collection_finish() -> None:
    """Ten thousand tests and the libraries stay until the end: collections need not look through them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Else libraries would tell of leaks at the end of the interpreter."""
    gc.unfreeze()


_kept: list[int] = []  # the lock of a test that runs alone, until one follows that does not


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Between two workers, a test in `REAL` runs alone; folders are the locks, so nothing is left behind.

    Those of one file follow each other: else each of them would wait for a test of the other worker."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    lock = _kept.pop() if _kept else _locked(alone=_is_alone(item))
    try:
        yield
    finally:
        if nextitem and _is_alone(item) and _is_alone(nextitem):
            _kept.append(lock)
        else:
            os.close(lock)


def _locked(*, alone: bool) -> int:
    tests = Path(__file__).parent
    gate, lock = os.open(tests / "e2e", os.O_RDONLY), os.open(tests, os.O_RDONLY)
    fcntl.flock(gate, fcntl.LOCK_EX)  # who waits for the lock keeps newcomers out: nobody waits forever
    fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
    os.close(gate)
    return lock


def _is_alone(item: pytest.Item) -> bool:
    return REAL.match(item.path.relative_to(Path(__file__).parent).as_posix()) is not None
