"""Export the trained model as a folder like its source: same files, names and precision."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import save_file

from trainer.chat.folder import FURTHER_TEMPLATES

from .weights import merged_weights

if TYPE_CHECKING:
    from torch import Tensor

    from .model import ActorCritic


_NOT_COPIED = re.compile(
    r".*\.(safetensors|bin|pt|pth|gguf|onnx|h5|msgpack|bin\.index\.json)|README\.md|\..*"
)


def write_model(core: ActorCritic, folder: Path, *, write: bool) -> None:
    """Write a Hugging Face folder atomically; collective, and only the designated rank writes.

    Adapters are merged. Files that the learner does not use, such as a vision tower, are copied. Host memory
    holds the tensors of incomplete files: one or two files of a few gigabytes each.
    """
    if not write:
        for _ in merged_weights(core, tied_head=False):
            pass
        return
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    _write_weights(core, draft)
    for file in core.origin.files.folder.iterdir():
        if file.is_file() and not _NOT_COPIED.fullmatch(file.name):
            shutil.copy2(file, draft / file.name)
        elif file.name == FURTHER_TEMPLATES:
            shutil.copytree(file, draft / file.name)
    shutil.rmtree(folder, ignore_errors=True)
    draft.replace(folder)


def _write_weights(core: ActorCritic, folder: Path) -> None:
    files = core.origin.files.files
    missing: dict[str, set[str]] = {}
    for key, file in files.items():
        missing.setdefault(file, set()).add(key)
    gathered: dict[str, dict[str, Tensor]] = {file: {} for file in missing}

    def put(key: str, tensor: Tensor) -> None:
        file = files[key]
        gathered[file][key] = tensor
        missing[file].discard(key)
        if not missing[file]:
            save_file(gathered.pop(file), folder / file, metadata={"format": "pt"})

    with core.origin.files.opened() as reader:
        for key, tensor in merged_weights(core, tied_head=False):
            # clone: safetensors rejects tensors that share memory
            put(key, tensor.to("cpu", reader.dtype(key), copy=True).contiguous())
        for key in core.origin.naming.others:
            put(key, reader.tensor(key))
