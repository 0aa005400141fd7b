"""The safetensors files of a pretrained model's folder: which tensors there are, and slices of them."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from trainer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

__all__ = ["PretrainedFiles", "Reader"]

_ALONE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class PretrainedFiles:
    """What lies in a folder; no tensor is held."""

    folder: Path
    files: Mapping[str, str]
    """The name of its file for each tensor."""

    @classmethod
    def of(cls, folder: Path) -> PretrainedFiles:
        """Look into a folder. Raises ConfigError when its weights are not all there in safetensors."""
        if (folder / _INDEX).is_file():
            try:
                files = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"]
            except (OSError, ValueError, KeyError) as error:
                raise ConfigError(f"model.path: {folder / _INDEX} cannot be read: {error}") from error
            if absent := sorted({name for name in files.values() if not (folder / name).is_file()}):
                raise ConfigError(f"model.path: {folder} lacks {', '.join(absent)}, which its index names")
            return cls(folder, files)
        if not (folder / _ALONE).is_file():
            raise ConfigError(f"model.path: {folder} holds no weights: {_ALONE} and {_INDEX} are missing")
        with _opened(folder / _ALONE) as file:
            return cls(folder, dict.fromkeys(file.keys(), _ALONE))

    @contextmanager
    def opened(self) -> Iterator[Reader]:
        """Read while the block runs."""
        with ExitStack() as stack:
            yield Reader(self, stack)


class Reader:
    """Tensors of a folder, whose files are opened once each."""

    def __init__(self, files: PretrainedFiles, stack: ExitStack) -> None:
        self._files = files
        self._stack = stack
        self._opened: dict[str, Any] = {}

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor."""
        return torch.Size(self._file(name).get_slice(name).get_shape())

    def dtype(self, name: str) -> torch.dtype:
        """The precision of a tensor."""
        part = self._file(name).get_slice(name)
        empty: Tensor = part[:0] if part.get_shape() else self.tensor(name)
        return empty.dtype

    def tensor(self, name: str) -> Tensor:
        """All of a tensor."""
        found: Tensor = self._file(name).get_tensor(name)
        return found

    def part(self, name: str, part: tuple[slice, ...]) -> Tensor:
        """A part of a tensor; nothing else of it is read."""
        found: Tensor = self._file(name).get_slice(name)[part]
        return found

    def _file(self, name: str) -> Any:  # noqa: ANN401 - safetensors has no types
        file = self._files.files[name]
        if file not in self._opened:
            self._opened[file] = self._stack.enter_context(_opened(self._files.folder / file))
        return self._opened[file]


def _opened(path: Path) -> safe_open:
    """By ``pread``: pages of a mapped file would count as this process's memory as long as it is open."""
    try:
        return safe_open(path, framework="pt", backend="pread")
    except OSError as error:
        raise ConfigError(f"model.path: {path} cannot be read: {error}") from error
    except SafetensorError as error:
        raise ConfigError(f"model.path: {path} is no whole safetensors file: {error}") from error
