"""A Llama of transformers with random weights, from a configuration: no download.

pip install transformers
laptime bench --llm examples/llm/random_llama.py:build --prompt 128 --output-tokens 32 --batch 1,8
"""

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


def build() -> nn.Module:
    """About 10 million weights with grouped queries: 8 heads share 2 of keys and values."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=4096,
            hidden_size=384,
            intermediate_size=1024,
            num_hidden_layers=6,
            num_attention_heads=8,
            num_key_value_heads=2,
            max_position_embeddings=1024,
        )
    )
