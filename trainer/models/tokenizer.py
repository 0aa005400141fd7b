"""Tokenizers of tiny models: all bytes are covered, digits are single, fixed phrases are one token each.

Decoding is lossless: ``decode(encode(text)) == text``. Words are split as in Qwen2's tokenizer, because some
loaders use that splitting for any Qwen2-shaped model; phrases are added tokens, which every loader keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import ConfigError, DataError

from .corpus import PHRASES, conversations

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from trainer.config.model import TinyModel


PAD = "<|endoftext|>"
"""Named so because loaders of Qwen2's tokenizer would add this token if it were missing."""
END = "<|end|>"
"""Ends every message."""
_SPECIAL = (PAD, END, "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
_BYTES = 256
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's pattern: words with the space before them, single digits, runs of punctuation."""
_STEP = 64
"""Vocabularies are multiples of this size, which suits matrix kernels."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}"
    "<|assistant|>{%- generation -%}{{- message.content or '' -}}"
    "{%- for call in message.tool_calls or [] -%}"
    '<tool_call>{"name": {{ call.function.name | tojson }}, "arguments": '
    "{%- set given = call.function.arguments -%}"
    "{{- ' ' ~ (given if given is string else given | tojson) -}}"
    "}</tool_call>"
    "{%- endfor -%}<|end|>{%- endgeneration -%}"
    "{%- else -%}"
    "{{- '<|' ~ message.role ~ '|>' ~ (message.content or '') ~ '<|end|>' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
"""One token before each message and one after it. Tools are not rendered: a tiny model has no room for them.

"""


def vocabulary_of(config: TinyModel) -> int:
    """Return the number of tokens, a multiple of 64. Raises ConfigError without room for all bytes."""
    if config.tokenizer == "bytes":
        return _rounded_up(len(_SPECIAL) + _BYTES)
    least = _rounded_up(len(_SPECIAL) + _BYTES + len(_phrases(config)))
    if config.vocabulary < least or config.vocabulary % _STEP:
        raise ConfigError(
            f"model.vocabulary must be a multiple of {_STEP} and at least {least}, not {config.vocabulary}"
        )
    return config.vocabulary


def make_tokenizer(config: TinyModel) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a chat template and a name for every id of the vocabulary.

    Raises ConfigError for a vocabulary without room, DataError for a corpus that cannot be read.
    """
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    size, phrases = vocabulary_of(config), _phrases(config)
    learned = len(_SPECIAL) + _BYTES if config.tokenizer == "bytes" else size - len(phrases)
    tokenizer = _learned(config, learned)
    tokenizer.add_tokens([AddedToken(phrase, special=False, normalized=False) for phrase in phrases])
    names = [f"<|spare_{number}|>" for number in range(size - tokenizer.get_vocab_size())]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    wrapped: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        model_max_length=config.context,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP


def _phrases(config: TinyModel) -> tuple[str, ...]:
    """Return the added phrases; a corpus of its own has none."""
    return PHRASES if config.tokenizer == "bpe" and config.corpus is None else ()


def _learned(config: TinyModel, size: int) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(config.corpus), trainer)
    return tokenizer


def _corpus(path: Path | None) -> Iterable[str]:
    if path is None:
        return conversations()
    try:
        return path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the tokenizer's corpus {path}: {error}") from error
