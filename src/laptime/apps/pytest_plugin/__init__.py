"""The pytest plugin: a fixture `laptime`, options `--laptime-...`, a table at the end.

fixture      `laptime(function, *args)`: one test, measured in the process of the tests
session      what can be asked, and all tests of one pytest as one run: saved, compared, reported
turns        the tests at a git revision and here, in turns

Every pytest loads it if laptime is installed: nothing but pytest is imported before a test measures."""

from collections.abc import Iterator
from typing import Any

import pytest

from laptime.apps.pytest_plugin.fixture import Measure
from laptime.apps.pytest_plugin.session import Session, add_options, read_options

SESSION = pytest.StashKey[Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--laptime-...`."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """One session a pytest; an option that cannot be met ends it before any test runs."""
    config.stash[SESSION] = Session(read_options(config), config.invocation_params.args)


@pytest.fixture
def laptime(request: pytest.FixtureRequest) -> Iterator[Measure]:
    """Measures a call: `result = laptime(function, *args, **kwargs)`."""
    measure = Measure(request.node.nodeid, request.config.stash[SESSION])
    yield measure
    measure.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what `--laptime-only` and `--laptime-skip` leave out."""
    asked = config.stash[SESSION].options
    for item in items:
        measures = "laptime" in getattr(item, "fixturenames", ())
        if asked.skip and measures:
            item.add_marker(pytest.mark.skip(reason="--laptime-skip"))
        if asked.only and not measures:
            item.add_marker(pytest.mark.skip(reason="--laptime-only"))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Save, compare, write reports; a regression ends a passing session with 1."""
    ours = session.config.stash[SESSION]
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    ours.finish(terminal.write_line if terminal is not None else print)
    if ours.is_worse and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, and what the comparison says."""
    lines = config.stash[SESSION].summary()
    if lines:
        terminalreporter.section("laptime")
        for line in lines:
            terminalreporter.line(line)
