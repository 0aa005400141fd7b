"""Chat templates of real models, each with a tokenizer of bytes that knows its marks.

They are those that TRL ships in its package, those that Mistral's package writes for the versions of its
tokenizers, and those of the folder ``templates``, whose page says where they are from. A folder of others
(``*.jinja``), such as llama.cpp's ``models/templates``, joins them when the variable ``CHAT_TEMPLATES``
names it.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from trainer.chat import ChatTokenizer
from trainer.config.model import ChatConfig

__all__ = [
    "MISTRAL_VERSIONS",
    "chat_with",
    "ends_of",
    "family_names",
    "kept_names",
    "mistral_names",
    "template_text",
    "trl_names",
]

_MARK = re.compile(
    r"""<\|[^|<>\s{}']+\|>|<｜[^｜<>]+｜>|\[/?[A-Z_]+\]|<\|?/?[a-zA-Z_]+\|?>|</?[a-z]+:[a-z_]+>"""
    r"""|<SPECIAL_[0-9]+>|<\|"\|>|\]~b\]|\[e~\["""
)
_ORDINARY = re.compile(
    r"</?(tool|tool_call|tool_response|think|arg_key|arg_value|function|parameter|tools|response)>"
)
"""Marks that are tokens of their own without being special, as in Qwen's and GLM's tokenizers."""
_KEPT = Path(__file__).parent / "templates"
MISTRAL_VERSIONS = ("v1", "v2", "v3", "v7", "v11", "v13", "v15")
"""Of Mistral's tokenizers, each with a template of its own."""
_ENDS = {
    "cohere": ["<|END_OF_TURN_TOKEN|>"],
    "deepseek": ["<｜end▁of▁sentence｜>"],
    "gemma4": ["<turn|>", "<|tool_response>"],
    "diffusion_gemma": ["<turn|>", "<|tool_response>"],
    "gemma": ["<end_of_turn>"],
    "glm": ["<|endoftext|>", "<|user|>", "<|observation|>"],
    "gptoss": ["<|return|>", "<|call|>"],
    "gpt-oss": ["<|return|>", "<|call|>"],
    "hermes": ["<|im_end|>"],
    "nano-v2": ["<SPECIAL_12>"],
    "llama4": ["<|eot|>", "<|eom|>"],
    "granite": ["<|end_of_text|>"],
    "lfm2": ["<|im_end|>"],
    "nemotron": ["<|im_end|>"],
    "smollm": ["<|im_end|>"],
    "kimi": ["<|im_end|>"],
    "llama": ["<|eot_id|>", "<|eom_id|>"],
    "minimax": ["[e~["],
    "mistral": ["</s>"],
    "muse": ["<|eot|>"],
    "ministral": ["</s>"],
    "phi4_mini": ["<|endoftext|>", "<|end|>"],
    "phi4": ["<|im_end|>"],
    "phi": ["<|endoftext|>", "<|end|>"],
    "qwen": ["<|im_end|>", "<|endoftext|>"],
}
"""Ends that ``generation_config.json`` declares, by a family's name."""
_OF_IMAGES = {"idefics3", "llava_next", "smolvlm"}
"""Templates that take contents as parts, not as text."""


def trl_names(*, training: bool = False) -> list[str]:
    """Names of TRL's templates: those of the models, or those patched for training."""
    stems = sorted(path.stem for path in _trl().glob("*.jinja"))
    return [
        stem
        for stem in stems
        if stem.endswith("_training") is training and stem.removesuffix("_training") not in _OF_IMAGES
    ]


def kept_names() -> list[str]:
    """Names of the templates beside this file."""
    return sorted(path.stem for path in _KEPT.glob("*.jinja"))


def mistral_names() -> list[str]:
    """Names of the templates that Mistral's package writes; none without it."""
    there = importlib.util.find_spec("mistral_common") is not None
    return [f"mistral_{version}" for version in MISTRAL_VERSIONS] if there else []


def family_names() -> list[str]:
    """All templates at hand, by name."""
    extra = os.environ.get("CHAT_TEMPLATES")
    more = sorted(str(path) for path in Path(extra).glob("*.jinja")) if extra else []
    return [*trl_names(), *kept_names(), *mistral_names(), *more]


@cache
def template_text(name: str) -> str:
    """A template's Jinja text."""
    if name in mistral_names():
        return _mistral(name.removeprefix("mistral_"))
    folder = _KEPT if name in kept_names() else _trl()
    path = Path(name) if name.endswith(".jinja") else folder / f"{name}.jinja"
    return path.read_text(encoding="utf-8")


def ends_of(name: str) -> list[str]:
    """The tokens that end a generation, as the model's folder declares them."""
    stem = Path(name).name.lower()
    return _ENDS[max((family for family in _ENDS if family in stem), key=len, default="qwen")]


def chat_with(name: str, **config: object) -> ChatTokenizer:
    """The chat of a folder with that template."""
    return ChatTokenizer(_folder(name), ChatConfig.model_validate(config))


@cache
def _folder(name: str) -> Path:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = Path(mkdtemp(prefix="template-"))
    atexit.register(shutil.rmtree, folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = dict.fromkeys(["<s>", *ends_of(name), *sorted(_MARK.findall(template_text(name)))])
    for mark in marks:
        special = not _ORDINARY.fullmatch(mark)
        add = tokenizer.add_special_tokens if special else tokenizer.add_tokens
        add([AddedToken(mark, special=special, normalized=False)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token=ends_of(name)[0])
    wrapped.chat_template = template_text(name)
    wrapped.save_pretrained(folder)
    ends = [wrapped.convert_tokens_to_ids(end) for end in ends_of(name)]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}), encoding="utf-8")
    return folder


def _mistral(version: str) -> str:
    """Return the template that Mistral's package writes: for SentencePiece up to v3, then for Tekken."""
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    kind = TokenizerVersion(version)
    efforts = ("none", "high") if kind.supports_model_settings else None
    return generate_chat_template(
        spm=kind <= TokenizerVersion.v3,
        tokenizer_version=kind,
        image_support=False,
        audio_support=False,
        thinking_support=kind >= TokenizerVersion.v13,
        default_system_prompt=None,
        plain_thinking_support=False,
        use_special_token_variables=True,
        model_settings_fields=frozenset({"reasoning_effort"}) if efforts else None,
        reasoning_effort_values=efforts,
        reasoning_effort_default=efforts[0] if efforts else None,
    )


def _trl() -> Path:
    found = importlib.util.find_spec("trl")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package trl is not installed")
    return Path(found.origin).parent / "chat_templates"
