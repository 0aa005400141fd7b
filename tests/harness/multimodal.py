"""Tiny folders of multimodal classes, as the hub has them: a text model, a vision tower, their names."""

import json

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText

from tests.harness.architectures import WORDS, tiny_config

_VISION = {
    "qwen3_5": {
        "depth": 1,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 2,
        "out_hidden_size": 32,
        "patch_size": 4,
        "num_position_embeddings": 16,
    },
    "gemma3": {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 4,
    },
}
FAMILIES = {"qwen3_5": "qwen3.5", "gemma3": "gemma-3"}
"""Model types of whole models, and the architecture of their text models."""


def multimodal_model(model_type, folder, dtype=torch.float32):
    """A folder of ``...ForConditionalGeneration``."""
    text = tiny_config(FAMILIES[model_type]).to_dict()
    text.pop("architectures", None)
    ids = {"image_token_id": WORDS - 1, "vision_start_token_id": WORDS - 2, "vision_end_token_id": WORDS - 3}
    if model_type == "gemma3":
        ids = {"image_token_index": WORDS - 1, "boi_token_index": WORDS - 2, "eoi_token_index": WORDS - 3}
        ids["mm_tokens_per_image"] = 4
    config = AutoConfig.for_model(
        model_type, text_config=text, vision_config=_VISION[model_type], tie_word_embeddings=True, **ids
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    model.save_pretrained(folder)
    return folder


def with_prediction_layers(folder):
    """The same with weights that only an engine uses, as Qwen3.5 has them."""
    file = folder / "model.safetensors"
    save_file({**load_file(file), "mtp.norm.weight": torch.ones(32)}, file, metadata={"format": "pt"})
    return folder


def architecture_of(folder):
    """The class that the folder names."""
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
