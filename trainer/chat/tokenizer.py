"""Conversations as tokens, for token-in-token-out episodes.

The template is applied once to the opening and once to each observation; what an assistant said is kept as
the tokens that were sampled. Text is derived from tokens, never the other way round.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox_service.contract.messages import Message
from trainer.errors import ConfigError

from .coder import Coder
from .template import Template
from .tool_formats import TOOL_FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

    from sandbox_service.contract.messages import Tool
    from trainer.config.model import ChatConfig

__all__ = ["ChatTokenizer"]

_WINDOW = 16
"""Tokens before a turn that its text is tokenised with again, when it is checked for drift."""


class ChatTokenizer:
    """The tokenizer of a model's folder with its template, and a way to read tool calls.

    Raises ConfigError where the folder has no tokenizer, or a template that cannot be used.
    """

    def __init__(self, folder: Path, config: ChatConfig) -> None:
        self._folder = folder
        self._config = config
        self._tokenizer = _loaded(folder)
        self._coder = Coder(self._tokenizer)
        self._template = Template(self._tokenizer, _source(config.template))
        self.format = TOOL_FORMATS[config.tool_format]
        """How tool calls are written."""
        self.stop_ids = self._found_stop_ids()
        """Token ids that end a turn; the template's own is the first."""
        self.context_tokens = _context(folder)
        """Positions of the model; None when its config does not tell."""

    @property
    def threaded(self) -> bool:
        """Whether several threads may use it at a time."""
        return self._coder.threaded

    @property
    def tells_tools(self) -> bool:
        """Whether the opening depends on the tools."""
        return self._config.tools != "none"

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int]:
        """Tokens of a conversation so far, up to where the assistant speaks."""
        by_template = tools if self._config.tools == "template" else ()
        return self.encode(self._template.render(self._told(messages, tools), by_template))

    def continuation(self, messages: Sequence[Message], *, closed: bool = True) -> list[int]:
        """Tokens behind an assistant's turn: the rest of its frame, new messages, and the next turn's head.

        ``closed`` is false for a turn that was cut off before its stop token, which then comes first.
        """
        return self.encode(self._template.following(messages, closed=closed))

    def turn(self, message: Message | str) -> list[int]:
        """Tokens of an assistant's turn with its stop token, as the model would have to write it."""
        text = message if isinstance(message, str) else self.format.render(message)
        return [*self.encode(text), self.stop_ids[0]]

    def said(self, turn_ids: Sequence[int]) -> str:
        """Text of a turn without its stop token."""
        ended = bool(turn_ids) and turn_ids[-1] in self.stop_ids
        return self.decode(turn_ids[:-1] if ended else turn_ids)

    def parse(self, text: str, first_call: int = 0) -> Message:
        """The assistant's message; its tool calls are numbered from ``first_call``."""
        return self.format.parse(text, first_call)

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, nothing added. Lone surrogates, which no tokenizer takes, become ``?``."""
        return self._coder.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones included."""
        return self._coder.decode(ids)

    def drifted(self, token_ids: Sequence[int], start: int, end: int) -> bool:
        """Whether the text of ``[start, end)`` would be tokenised to other tokens than these."""
        turn = list(token_ids[start:end])
        again = self.encode(self.decode(token_ids[max(0, start - _WINDOW) : end]))
        return again[len(again) - len(turn) :] != turn

    def _told(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
        """The messages with the configured system prompt, and with the tools in it if so configured."""
        system = [message.content or "" for message in messages if message.role == "system"]
        if self._config.system_prompt is not None:
            system = [self._config.system_prompt]
        elif not tools or self._config.tools != "prompt":
            return list(messages)
        if tools and self._config.tools == "prompt":
            system.append(self.format.paragraph(tools))
        text = "\n\n".join(part for part in system if part)
        rest = [message for message in messages if message.role != "system"]
        return [Message(role="system", content=text), *rest] if text else rest

    def _found_stop_ids(self) -> tuple[int, ...]:
        tokenizer = self._tokenizer
        ends = self.encode(self._template.end) if self._template.end else []
        found = [*ends[:1], *_generation_ends(self._folder)]
        if tokenizer.eos_token_id is not None:
            found.append(int(tokenizer.eos_token_id))
        if not found:
            raise ConfigError("nothing ends a turn: neither chat template nor tokenizer has an end token")
        return tuple(dict.fromkeys(found))


def _loaded(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # A folder that names this class says all in tokenizer.json; AutoTokenizer would go by the model's shape.
    named = _read(folder / "tokenizer_config.json").get("tokenizer_class")
    loader = PreTrainedTokenizerFast if named == "TokenizersBackend" else AutoTokenizer
    try:
        tokenizer: PreTrainedTokenizerBase = loader.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} holds no tokenizer that can be loaded: {error}") from error
    return tokenizer


def _source(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"chat.template: {path} cannot be read: {error}") from error


def _read(path: Path) -> dict[str, object]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _generation_ends(folder: Path) -> list[int]:
    ends = _read(folder / "generation_config.json").get("eos_token_id")
    return [end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int)]


def _context(folder: Path) -> int | None:
    config = _read(folder / "config.json")
    text = config.get("text_config")
    positions = config.get("max_position_embeddings")
    if positions is None and isinstance(text, dict):
        positions = text.get("max_position_embeddings")
    return positions if isinstance(positions, int) else None
