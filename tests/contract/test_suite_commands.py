from __future__ import annotations

import pytest

from laptime import testing
from laptime.kit import registry


@pytest.mark.parametrize("name", registry.names("suite_commands"))
def test_words_after_suite_keep_the_contract_of_commands(name: str) -> None:
    testing.check_command(name, room="suite_commands")
