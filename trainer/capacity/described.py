"""Find the configuration of a run's model, without its weights: enough to compute sizes.

It is looked up in the model's folder, in the hub's cache on this machine, in a table that comes with the
package (``config.json`` of some models as on the hub), and on the hub.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from trainer.config.model import PretrainedModel
from trainer.errors import ConfigError
from trainer.models.tiny import tiny_shape

if TYPE_CHECKING:
    from trainer.config.model import ModelConfig


_TABLE = Path(__file__).with_name("hub_models.json")
_FETCH_S = 10.0
_FILE = "config.json"


@contextmanager
def described_model(model: ModelConfig) -> Iterator[Path]:
    """Yield a folder with the model's ``config.json``. Raises ConfigError."""
    with TemporaryDirectory(prefix="described-") as name:
        folder = Path(name)
        if isinstance(model, PretrainedModel):
            yield _found(model, folder)
        else:
            tiny_shape(model).save_pretrained(folder)
            yield folder


def is_on_hub(model: ModelConfig) -> bool:
    """Return whether the model is downloaded from the hub, rather than made or in a folder."""
    return isinstance(model, PretrainedModel) and not Path(model.path).expanduser().is_dir()


def known_models() -> dict[str, dict[str, object]]:
    """Return the table: configurations by name on the hub."""
    found: dict[str, dict[str, object]] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return found


def _found(model: PretrainedModel, spare: Path) -> Path:
    local = Path(model.path).expanduser()
    if local.is_dir():
        if not (local / _FILE).exists():
            raise ConfigError(f"model.path: {local} is not a model folder: it has no {_FILE}")
        return local
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(model.path, _FILE, revision=model.revision)
    except ValueError as error:
        raise ConfigError(f"model.path: {model.path} is neither a folder nor a name on the hub") from error
    if isinstance(cached, str):
        return Path(cached).parent
    known = known_models()
    if model.path in known and model.revision is None:
        (spare / _FILE).write_text(json.dumps(known[model.path]), encoding="utf-8")
        return spare
    try:
        return Path(hf_hub_download(model.path, _FILE, revision=model.revision, etag_timeout=_FETCH_S)).parent
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"model.path: cannot download the {_FILE} of {model.path}: {reason}") from error
