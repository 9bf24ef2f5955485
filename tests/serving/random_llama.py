"""Configuration and tokenizer (512 tokens, bytes) of a Llama for a server started with dummy weights."""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast

vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
    vocabulary.setdefault(letter, len(vocabulary))
while len(vocabulary) < 512:
    vocabulary[f"t{len(vocabulary):03d}"] = len(vocabulary)
LlamaConfig(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    architectures=["LlamaForCausalLM"],
    bos_token_id=1,
    eos_token_id=2,
    torch_dtype="bfloat16",
).save_pretrained(sys.argv[1])
bytes_ = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bytes_.decoder = decoders.ByteLevel()
fast = PreTrainedTokenizerFast(tokenizer_object=bytes_, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
fast.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
fast.save_pretrained(sys.argv[1])
