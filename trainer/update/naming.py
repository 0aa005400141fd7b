"""Map names and shapes of weights between a folder's files and the model in training.

They differ where transformers fuses weights that the files keep apart (the experts of a mixture), and where
the language model is part of a multimodal one. All weights leave the learner under the names of the source
folder, so that a program that loads that folder can load the new weights too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    WeightConverter,
    WeightRenaming,
    dot_natural_key,
    rename_source_key,
)

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from .pretrained import PretrainedFiles


_LANGUAGE_MODEL = re.compile(r"^(?:model\.)?language_model\.(?:model\.)?(?=(lm_head\.)?)")
"""Prefixes of the language model in multimodal models."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Tensors of the files that are converted together to tensors of the model."""

    keys: tuple[str, ...]
    """Names in the files."""
    names: tuple[str, ...]
    """Names in the model."""
    language: PreTrainedModel
    inner: Mapping[str, str]
    """For each key, its name before conversion."""
    converter: WeightConverter | None = None
    """None where one tensor is only renamed."""

    def inward(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors of the files to tensors of the model."""
        if self.converter is None:
            return {self.names[0]: tensors[self.keys[0]]}
        return _converted(self.converter, {self.inner[key]: tensors[key] for key in self.keys}, self.language)

    def outward(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors of the model to tensors of the files."""
        if self.converter is None:
            return {self.keys[0]: tensors[self.names[0]]}
        back = cast("WeightConverter", self.converter.reverse_transform())
        found = _converted(back, {name: tensors[name] for name in self.names}, self.language)
        keys = {name: key for key, name in self.inner.items()}
        return {keys.get(name, name): tensor for name, tensor in found.items()}


@dataclass(frozen=True, slots=True)
class Naming:
    """All portions of a model."""

    portions: tuple[Portion, ...]
    others: tuple[str, ...]
    """Tensors of the files that the model does not use, such as a vision tower."""


@dataclass(frozen=True, slots=True)
class WeightOrigin:
    """The source of a model's weights."""

    files: PretrainedFiles
    naming: Naming
    tied_embedding: str | None
    """Name of the embedding in the files, where the output layer is tied to it and the files store it once.

    """
    head: str
    """Name of the output layer in the files."""

    @classmethod
    def of(cls, language: PreTrainedModel, files: PretrainedFiles) -> WeightOrigin:
        """Read the names in the files. Raises ConfigError when they do not belong to the model."""
        with files.opened() as reader:
            shapes = {name: reader.shape(name) for name in files.files}
        naming = naming_of(language, shapes)
        keys = {portion.names: portion.keys[0] for portion in naming.portions}
        embedding, head = (
            next((f"{name}.weight" for name, each in language.named_modules() if each is module), "")
            for module in (language.get_input_embeddings(), language.get_output_embeddings())  # type: ignore[no-untyped-call]
        )
        key = keys.get((embedding,), "")
        tied = head in (getattr(language, "all_tied_weights_keys", None) or {}) and (head,) not in keys
        outer = "language_model." if key.startswith("language_model.") else ""
        return cls(files, naming, key if tied else None, outer + head)


def naming_of(language: PreTrainedModel, shapes: Mapping[str, torch.Size]) -> Naming:
    """Return how the files' tensors become the model's, given their shapes by name.

    ``language`` may hold adapters, whose weights are not in the files.

    Raises:
        ConfigError: weights are missing from the files, have other shapes than the configuration implies,
            or their names cannot be restored.
    """
    wanted = _wanted(language)
    mapping = get_model_conversion_mapping(language)
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    by_pattern = {pattern: each for each in converters for pattern in each.source_patterns}
    gathered: dict[str, dict[str, str]] = defaultdict(dict)
    patterns: dict[str, str | None] = {}
    others = []
    for key in sorted(shapes, key=dot_natural_key):
        stripped = _without_prefix(key, wanted)
        inner, _ = rename_source_key(stripped, renamings, [], language.base_model_prefix, wanted)
        name, pattern = rename_source_key(stripped, renamings, converters, language.base_model_prefix, wanted)
        if name not in wanted and stripped in wanted:
            inner, name, pattern = stripped, stripped, None
        if name not in wanted:
            others.append(key)
            continue
        gathered[name][key] = inner if pattern is not None else name
        patterns[name] = pattern
    portions = tuple(
        _portion(language, inner, name, None if pattern is None else by_pattern[pattern], shapes)
        for name, inner in gathered.items()
        for pattern in (patterns[name],)
    )
    _check(language, wanted, portions, shapes)
    return Naming(portions, tuple(others))


def _wanted(language: PreTrainedModel) -> dict[str, torch.Size]:
    """Return the shapes that the files have to hold, under the model's names without adapters."""
    return {
        name.replace(".base_layer.", "."): tensor.shape
        for name, tensor in language.state_dict().items()
        if ".lora_" not in name
    }


def _without_prefix(key: str, wanted: Collection[str]) -> str:
    """Return the name as in a plain language model; other names stay unchanged."""
    if key in wanted:
        return key
    found = _LANGUAGE_MODEL.match(key)
    if found is None:
        return key
    rest = key[found.end() :]
    return rest if found[1] else f"model.{rest}"


def _portion(
    language: PreTrainedModel,
    inner: dict[str, str],
    name: str,
    converter: WeightConverter | None,
    shapes: Mapping[str, torch.Size],
) -> Portion:
    if converter is None:
        return Portion(tuple(inner), (name,), language, inner)
    portion = Portion(tuple(inner), (), language, inner, converter)
    empty = {key: torch.empty(shapes[key], device="meta") for key in inner}
    return Portion(portion.keys, tuple(portion.inward(empty)), language, inner, converter)


def _converted(
    converter: WeightConverter, tensors: Mapping[str, Tensor], language: PreTrainedModel
) -> dict[str, Tensor]:
    """Return the result of transformers' conversion of tensors, by name."""
    fresh = deepcopy(converter)
    first = ""
    for name, tensor in tensors.items():
        first, pattern = fresh.rename_source_key(name)
        if pattern is None:
            raise ConfigError(f"transformers does not know how to convert {name}")
        fresh.add_tensor(first, name, pattern, cast("Any", tensor))
    found: Mapping[str, Tensor | Sequence[Tensor]] = fresh.convert(
        first, model=language, config=language.config
    )
    return {name: each if isinstance(each, torch.Tensor) else each[0] for name, each in found.items()}


def _check(
    language: PreTrainedModel,
    wanted: Mapping[str, torch.Size],
    portions: Sequence[Portion],
    shapes: Mapping[str, torch.Size],
) -> None:
    found: dict[str, torch.Size] = {}
    for portion in portions:
        if portion.converter is None and len(portion.keys) > 1:
            raise ConfigError(f"model.path: the files hold {portion.names[0]} twice: {portion.keys}")
        empty = {key: torch.empty(shapes[key], device="meta") for key in portion.keys}
        inward = portion.inward(empty)
        found |= {name: tensor.shape for name, tensor in inward.items()}
        back = {name: tensor.shape for name, tensor in portion.outward(inward).items()}
        if back != {key: tensor.shape for key, tensor in empty.items()}:
            raise ConfigError(
                f"model.path: {portion.names[0]} cannot be mapped back to the names of the files"
            )
    tied = getattr(language, "all_tied_weights_keys", None) or {}
    also = {name for pair in tied.items() if not found.keys().isdisjoint(pair) for name in pair}
    if absent := sorted(set(wanted) - set(found) - also):
        raise ConfigError(f"model.path: the files lack {len(absent)} weights of the model: {_some(absent)}")
    wrong = sorted(name for name, shape in found.items() if name in wanted and shape != wanted[name])
    if wrong:
        name = wrong[0]
        raise ConfigError(
            f"model.path: {len(wrong)} weights have other sizes than config.json says: {name} is "
            f"{tuple(found[name])} in the files and {tuple(wanted[name])} by the configuration"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
