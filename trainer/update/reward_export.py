"""Export the trained model with its head as a reward model, as transformers names its parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file
from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

from .export import write_model
from .pretrained import PretrainedFiles
from .sharding import full

if TYPE_CHECKING:
    from torch import Tensor

    from .model import ActorCritic

_WHOLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_HEAD_FILE = "score.safetensors"
_LABEL = "reward"


def write_reward_model(core: ActorCritic, folder: Path, *, write: bool) -> float:
    """Write a Hugging Face folder atomically; collective, and only the designated rank writes.

    ``AutoModelForSequenceClassification`` loads it, where transformers has that class for the architecture;
    the head is the tensor ``score.weight`` in a file of its own. Returns the head's bias, which these classes
    do not have: it is the same for all sequences. Raises ValueError for a model without a head.
    """
    if core.value_head is None:
        raise ValueError("the model has no head to export")
    weight = full(core.value_head.weight).to("cpu", copy=True).contiguous()
    bias = float(full(core.value_head.bias))
    draft = folder.with_name(f".{folder.name}.headless")
    write_model(core, draft, write=write)
    if write:
        _add_head(draft, weight)
        _describe(core, draft)
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    return bias


def _add_head(folder: Path, weight: Tensor) -> None:
    files = dict(PretrainedFiles.of(folder).files)
    if (folder / _WHOLE).exists() and not (folder / _INDEX).exists():
        # transformers would not look at an index beside a whole file.
        (folder / _WHOLE).rename(folder / "trunk.safetensors")
        files = dict.fromkeys(files, "trunk.safetensors")
    save_file({"score.weight": weight}, folder / _HEAD_FILE, metadata={"format": "pt"})
    files["score.weight"] = _HEAD_FILE
    size = sum((folder / name).stat().st_size for name in set(files.values()))
    index = {"metadata": {"total_size": size}, "weight_map": files}
    (folder / _INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")


def _describe(core: ActorCritic, folder: Path) -> None:
    """Name the class and the only output in the folder's configuration."""
    file = folder / "config.json"
    config: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    kind = type(core.language.config)
    classes: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    if kind in classes:
        config["architectures"] = [classes[kind].__name__]
    config |= {"id2label": {"0": _LABEL}, "label2id": {_LABEL: 0}}
    file.write_text(json.dumps(config, indent=2), encoding="utf-8")
