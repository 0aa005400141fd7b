"""Models with the numbers of trained ones: a random one, and SmolLM2 where it has been made."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SMOLLM2 = Path(__file__).parents[2] / "var" / "models" / "SmolLM2-135M-Instruct"
SPREAD = 4.0
"""Standard deviation of the logits of a pretrained model."""


def random_model(folder, hidden=128, layers=6, words=1024):
    """Random weights, and logits that are as far apart as those of a pretrained model."""
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=3 * hidden,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=hidden**-0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.fill_(SPREAD)
    model.save_pretrained(folder)
    return folder


def smollm2():
    """The folder of SmolLM2-135M-Instruct; the test is skipped where ``make smollm`` has not made it."""
    if not (SMOLLM2 / "model.safetensors").exists():
        pytest.skip("make smollm makes the pretrained model")
    return SMOLLM2
