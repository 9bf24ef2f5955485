"""For every test: `make test` draws the same examples each time, `make test-all` looks for new ones."""

from hypothesis import settings

settings.register_profile("same examples", derandomize=True)
settings.register_profile("new examples", derandomize=False)
settings.load_profile("same examples")
