"""What all backends of programs refuse alike."""

import pytest

from laptime.backends import null
from laptime.kit.errors import TargetError
from laptime.records.plan import Variant

Module = type("Module", (), {"__module__": "torch.nn.modules.module", "__call__": lambda self, x: x})
Network = type("Network", (Module,), {})


def test_a_module_of_torch_runs_in_backends_that_take_one() -> None:
    with pytest.raises(TargetError, match=r"m\.py:build.*PyTorch") as refused:
        null.open_object(Network(), (1,), Variant(target="m.py:build", backend="null"))
    assert "--backend torch" in str(refused.value.next)
