"""Prefill and decode of a language model: what is called, how long the cache stays, what has to be moved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.backends import torch as backend
from laptime.kit.errors import UsageError
from laptime.records.plan import Variant

pytestmark = pytest.mark.torch
EXAMPLE = Path(__file__).parents[3] / "examples" / "llm" / "tiny_gpt.py"
WEIGHTS = 4 * (6 * (12 * 384**2 + 13 * 384) + 2 * 384 + 4096 * 384)
"""Bytes: six blocks, the last norm, the head; tables of tokens and positions are only looked up."""


def opened(phase: str, target: str = f"{EXAMPLE}:build", **options: Any) -> Any:
    return backend.open(Variant(target=target, options={"phase": phase, **options}))


def test_prefill_reads_the_prompt() -> None:
    model = opened("prefill", prompt=24, output=8)
    assert model.workload(2).call().shape == (2, 24, 4096)
    assert model.facts()["llm"]["tokens"] == 24


def test_decode_adds_one_token_to_a_cache_that_stays_as_long_as_it_is() -> None:
    import torch

    model = opened("decode", prompt="24", output="8")
    work = model.workload(2)
    first, second = work.call(), work.call()
    assert first.shape == (2, 1, 4096)
    assert torch.equal(first, second)
    assert model._program.call.caches[2][0][0].shape == (2, 6, 28, 64)


def test_a_step_moves_the_weights_and_the_cache() -> None:
    facts = opened("decode", prompt=24, output=8).facts()["llm"]
    assert facts["weight_bytes"] == WEIGHTS
    assert facts["cache_bytes"] == 6 * 2 * 28 * 384 * 4
    assert facts["bandwidth"] > 1e8


def test_decode_gives_what_the_whole_text_gives() -> None:
    import torch

    model = opened("decode", prompt=5, output=2)
    gpt = model._program.call.model
    with torch.inference_mode():
        ids = torch.randint(4096, (1, 7))
        whole = gpt(ids).logits[:, -1]
        step = gpt(ids[:, 6:], past_key_values=gpt(ids[:, :6]).past_key_values).logits[:, -1]
    assert torch.allclose(whole, step, atol=1e-4)


def grown(tmp_path: Path, body: str) -> str:
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\nfrom types import SimpleNamespace as Made\n"
        "class Cache:\n"
        "    length = 0\n"
        "    def crop(self, length):\n"
        "        self.length = length\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table = torch.nn.Embedding(50, 4)\n"
        f"    def forward(self, {body}\n"
        "def build():\n    return Model()\n"
    )
    return f"{path}:build"


def test_a_cache_that_grows_is_cut_back(tmp_path: Path) -> None:
    target = grown(
        tmp_path,
        "input_ids, past_key_values=None, use_cache=True):\n"
        "        cache = past_key_values or Cache()\n"
        "        cache.length += input_ids.shape[1]\n"
        "        return Made(logits=self.table(input_ids) + cache.length, past_key_values=cache)",
    )
    model = opened("decode", target, prompt=6, output=4)
    work = model.workload(1)
    assert (work.call() - work.call()).abs().max() == 0
    assert model._program.call.caches[1].length == 8


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("x):\n        return x", "not called with input_ids"),
        (
            "input_ids, past_key_values=None, use_cache=True):\n        return Made(logits=1)",
            "no past_key_values",
        ),
    ],
)
def test_what_is_no_language_model_is_refused(body: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        opened("decode", grown(tmp_path, body))
    assert why in told.value.why


@pytest.mark.parametrize(
    "options", [{"phase": "warm"}, {"phase": "decode", "prompt": 0}, {"phase": "decode", "output": "many"}]
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        backend.open(Variant(target=f"{EXAMPLE}:build", options=options))


def test_a_context_that_is_too_short_is_told() -> None:
    import torch

    from laptime.backends.torch.loading import phase_of
    from laptime.targets import Program

    module = torch.nn.Sequential(torch.nn.Embedding(9, 2))
    module.config = SimpleNamespace(max_position_embeddings=100)  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"90 tokens.*20"):
        phase_of(Program(call=module), {"phase": "prefill", "prompt": 90, "output": 20}, torch.device("cpu"))


def test_no_embedding_is_no_language_model() -> None:
    with pytest.raises(UsageError, match="language model"):
        opened("prefill", "torchvision:resnet18")
