"""Give an exported reward model a padding token that ends no turn.

transformers' class of sequence classification reads the last token that is not padding. Where a model pads
with the token that ends its turns, it would read one token earlier than the trainer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject

_CONFIG = "config.json"
_TOKENIZER = "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"


def separate_padding(folder: Path) -> None:
    """Replace a padding token that the chat template writes by a special one that it does not write.

    Where the tokenizer has no such token, the model is left without one. Folders that name no padding, and
    those without a fast tokenizer, are left as they are.
    """
    config, settings = _read(folder / _CONFIG), _read(folder / _TOKENIZER)
    parts = [part for part in (config, config.get("text_config")) if isinstance(part, dict)]
    special = _special_tokens(folder)
    padding = next((part["pad_token_id"] for part in parts if part.get("pad_token_id") is not None), None)
    written = _written(folder, settings, special)
    if padding not in written:
        return
    own = {_text(settings.get(f"{name}_token")) for name in ("bos", "eos")}
    found = next((each for each in sorted(special.keys() - written) if special[each] not in own), None)
    for part in parts:
        if "pad_token_id" in part:
            part["pad_token_id"] = found
    _write(folder / _CONFIG, config)
    if found is not None:
        for file in (folder / _TOKENIZER, folder / "special_tokens_map.json"):
            if "pad_token" in (given := _read(file)):
                _write(file, {**given, "pad_token": special[found]})


def _special_tokens(folder: Path) -> dict[int, str]:
    added = _read(folder / "tokenizer.json").get("added_tokens")
    tokens = [each for each in added if isinstance(each, dict)] if isinstance(added, list) else []
    return {
        number: _text(each)
        for each in tokens
        if each.get("special") and isinstance(number := each.get("id"), int)
    }


def _written(folder: Path, settings: JsonObject, special: Mapping[int, str]) -> set[int]:
    """Return the special tokens that the chat template writes, by text or by name; without one, the ends."""
    template = _template(folder, settings)
    named = {
        _text(settings.get(name)) for name in ("bos_token", "eos_token") if name in template or not template
    }
    return {number for number, text in special.items() if text in named or text in template}


def _template(folder: Path, settings: JsonObject) -> str:
    file = folder / _TEMPLATE
    if file.exists():
        return file.read_text(encoding="utf-8")
    given = settings.get("chat_template")
    return json.dumps(given, ensure_ascii=False) if given else ""


def _text(token: object) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")


def _read(file: Path) -> JsonObject:
    found: JsonObject = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def _write(file: Path, content: JsonObject) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
