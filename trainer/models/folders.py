"""Locate a configured model on this machine; create or download it if needed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config.model import PretrainedModel, TinyModel
from trainer.errors import ConfigError, DataError

from .corpus import PHRASES, conversations
from .tiny import make_tiny
from .tokenizer import CHAT_TEMPLATE

if TYPE_CHECKING:
    from trainer.config.model import ModelConfig


_CACHED = re.compile(r"/models--([^/]+)/snapshots/[^/]+$")
_WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken")


def model_folder(config: ModelConfig, root: Path) -> Path:
    """Return the model's folder; a tiny one is created once under ``root``, another is found or downloaded.

    Raises ConfigError when there is no such model, DataError for a corpus that cannot be read.
    """
    if isinstance(config, TinyModel):
        folder = root / f"tiny-{_digest(config)}"
        if not (folder / "config.json").exists():
            make_tiny(config, folder)
        return folder
    return _pretrained(config)


def public_name(folder: Path) -> str:
    """Return the name on the hub of a folder in the hub's cache, and the path of any other folder."""
    cached = _CACHED.search(folder.as_posix())
    return cached[1].replace("--", "/") if cached else str(folder)


def _digest(config: TinyModel) -> str:
    """Return a digest of everything that a tiny model is made of."""
    digest = hashlib.sha256(config.model_dump_json(exclude={"corpus"}).encode())
    digest.update(CHAT_TEMPLATE.encode())
    if config.corpus is None:
        digest.update("\0".join([*PHRASES, *conversations()]).encode())
    else:
        try:
            digest.update(config.corpus.read_bytes())
        except OSError as error:
            raise DataError(f"cannot read the tokenizer's corpus {config.corpus}: {error}") from error
    return digest.hexdigest()[:12]


def _pretrained(config: PretrainedModel) -> Path:
    local = Path(config.path).expanduser()
    if local.is_dir():
        if not (local / "config.json").exists():
            raise ConfigError(f"model.path: {local} is not a model folder: it has no config.json")
        return local.resolve()
    from huggingface_hub import snapshot_download

    try:
        fetched = snapshot_download(config.path, revision=config.revision, allow_patterns=list(_WANTED))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"model.path: {config.path} is neither a folder nor a model that can be downloaded: {reason}"
        ) from error
    return Path(fetched)
