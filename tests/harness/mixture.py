"""A small mixture of experts, as the hub has them: each expert by itself."""

import torch
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

from tests.harness.learning import WORDS


def small_mixture(folder, hidden=128):
    """A random model in Hugging Face's format; the same each time."""
    config = Qwen3MoeConfig(
        vocab_size=WORDS,
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
        intermediate_size=2 * hidden,
        moe_intermediate_size=hidden,
        num_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    return folder
