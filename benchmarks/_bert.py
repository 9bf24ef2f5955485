"""BERT-base from its configuration, with random weights: a target of tune_model.py (`_bert.py:build`)."""

from __future__ import annotations

from typing import Any

TOKENS = 128
"""Of a sequence."""


def build() -> Any:
    """The model in eval mode, and the tokens of one sequence."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig()
    return BertModel(config).eval(), {"input_ids": torch.randint(0, config.vocab_size, (1, TOKENS))}
