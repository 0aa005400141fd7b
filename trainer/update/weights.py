"""The model's weights as others want them: whole, under Hugging Face's names, one at a time."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, cast

from huggingface_hub import save_torch_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file

from .model import peft_config
from .sharding import full

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel

    from trainer.config import LoraConfig

__all__ = ["adapter_weights", "merged_weights", "write_adapter", "write_model"]

_ADAPTER = "default"
_WEIGHT_FILES = re.compile(r".*\.(safetensors|bin|pt|pth|gguf|index\.json)|(generation_)?config\.json")


def merged_weights(language: PreTrainedModel, *, tied_head: bool = True) -> Iterator[tuple[str, Tensor]]:
    """All weights, with adapters merged into them; collective, in the same order on every rank.

    Args:
        language: the language model.
        tied_head: give an output layer that is the input embedding under its own name, too; an engine that
            keeps a copy of it goes stale without.
    """
    adapted = {name: module for name, module in language.named_modules() if isinstance(module, LoraLayer)}
    head = language.get_output_embeddings()  # type: ignore[no-untyped-call]
    embedding = language.get_input_embeddings()
    for name, parameter in language.named_parameters():
        if ".lora_" in name:
            continue
        owner, _, last = name.removesuffix(".weight").rpartition(".base_layer")
        layer = adapted.get(owner) if not last and name.endswith(".weight") else None
        weight = full(parameter)
        yield name.replace(".base_layer.", "."), weight if layer is None else weight + _delta(layer)
        if tied_head and parameter is embedding.weight and head.weight is embedding.weight:
            yield (
                next(place for place, module in language.named_modules() if module is head) + ".weight",
                weight,
            )


def adapter_weights(language: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """The adapter's weights under PEFT's names; collective."""
    for name, parameter in language.named_parameters():
        if ".lora_" in name:
            yield f"base_model.model.{name.replace(f'.{_ADAPTER}.', '.')}", full(parameter)


def write_adapter(
    language: PreTrainedModel, config: LoraConfig, base: str, folder: Path, *, write: bool
) -> None:
    """PEFT's files of the adapter on ``base``; collective, and only who is to write writes."""
    weights = {name: weight.cpu().contiguous() for name, weight in adapter_weights(language)}
    if not write:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    words = peft_config(config, base)
    words.inference_mode = True
    words.save_pretrained(str(folder))


def write_model(language: PreTrainedModel, source: Path, folder: Path, *, write: bool) -> None:
    """A Hugging Face folder: weights, configuration, and the tokenizer's files of ``source``; collective."""
    weights: dict[str, Tensor] = {}
    for name, weight in merged_weights(language, tied_head=False):
        if write:  # one at a time, since a model that needs ranks does not fit on one
            weights[name] = weight.cpu()
    if not write:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(weights, folder, metadata={"format": "pt"})
    language.config.save_pretrained(folder)
    if language.generation_config is not None:
        language.generation_config.save_pretrained(folder)
    for file in source.iterdir():
        if file.is_file() and not _WEIGHT_FILES.fullmatch(file.name):
            shutil.copy2(file, folder / file.name)


def _delta(layer: LoraLayer) -> Tensor:
    """What an adapter adds to a weight: scaling x B A."""
    a, b = (full(cast("Tensor", each[_ADAPTER].weight)) for each in (layer.lora_A, layer.lora_B))
    delta: Tensor = (b @ a) * layer.scaling[_ADAPTER]
    return delta
