"""For every test: `make test` draws the same examples each time, `make test-all` looks for new ones."""

import gc
import os

from hypothesis import settings

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
