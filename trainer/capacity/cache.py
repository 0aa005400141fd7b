"""Compute what an engine keeps of a conversation: the keys and values of its tokens, layer by layer.

A layer of full attention keeps 2 x key-value heads x head size numbers of each token (Kwon et al. 2023,
https://arxiv.org/abs/2309.06180, section 2.2). One with a sliding window keeps them of the window's tokens
and, as vLLM reserves it, of a batch in flight; one of linear attention, state space or convolution keeps a
state whose size does not depend on the conversation, which is left out. Multi-head latent attention keeps
one compressed vector and the rotated part of one key (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section
2.1). The last layers of some models read the keys and values of earlier ones, and keep none. A layer whose
type is unknown counts as full attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.update.architecture import attention_heads

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from trainer.update.memory import ModelShape

BATCHED_TOKENS = 8192
"""vLLM's default of max_num_batched_tokens on GPUs of 70 GiB and more, the higher of its defaults."""
_STATE = frozenset({"linear_attention", "conv", "mamba", "moe", "mlp"})
"""Types of layers that keep no tokens."""
_SLIDING = frozenset({"sliding_attention", "hybrid_sliding"})
_WHOLE_HEADS = frozenset({"minicpm3"})
"""Types of models with compressed keys and values whose heads vLLM caches whole."""


@dataclass(frozen=True, slots=True)
class CachedLayer:
    """Numbers that a layer keeps of each token."""

    window: int | None
    """Tokens that it keeps; None for all of a conversation."""
    heads: int
    """Parts of a token's numbers that tensor parallelism divides; fewer than GPUs are replicated."""
    numbers: int
    """Numbers of a token in each of these parts."""

    def conversation_numbers(self, tokens: int, tensor_parallel: int, batched: int) -> int:
        """Return the numbers of a conversation on each GPU of an engine with steps of ``batched`` tokens."""
        kept = tokens if self.window is None else min(tokens, self.window + batched)
        return kept * max(1, self.heads // tensor_parallel) * self.numbers


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The layers of a model that keep tokens of a conversation."""

    layers: tuple[CachedLayer, ...]

    @classmethod
    def of(cls, shape: ModelShape, text: PreTrainedConfig) -> CacheShape:
        """Return it for a model's shape and the configuration of its language model."""
        count = len(shape.layers)
        windows = _windows(count, text)
        latent = getattr(text, "kv_lora_rank", None)
        if latent is not None and text.model_type not in _WHOLE_HEADS:
            return cls(tuple(CachedLayer(window, 1, _latent(text)) for window in windows.values()))
        heads = [(shape.layer.key_heads, shape.layer.head)] * count
        if getattr(text, "is_heterogeneous", False):
            heads = [(each.keys, each.size) for each in attention_heads(text)]
        return cls(
            tuple(
                CachedLayer(window, heads[place][0], 2 * heads[place][1]) for place, window in windows.items()
            )
        )

    def conversation_bytes(
        self, tokens: int, size: int, tensor_parallel: int, batched: int = BATCHED_TOKENS
    ) -> int:
        """Return the bytes of a conversation on each GPU of an engine, at ``size`` bytes a number.

        ``batched`` are the tokens of the engine's largest step, which windows keep as well.
        """
        return size * sum(each.conversation_numbers(tokens, tensor_parallel, batched) for each in self.layers)


def _windows(count: int, text: PreTrainedConfig) -> dict[int, int | None]:
    """Return the windows of the layers that keep tokens, by their places; None where they keep all."""
    own = count - int(getattr(text, "num_kv_shared_layers", None) or 0)
    window = int(getattr(text, "sliding_window", None) or 0) or None
    types = getattr(text, "layer_types", None)
    if types is None:
        # vLLM gives the window to all layers then, as in Mistral 7B v0.1 and Phi-3.
        return dict.fromkeys(range(own), window)
    if len(types) != count:
        return dict.fromkeys(range(own))
    kept = {place: kind for place, kind in enumerate(types[:own]) if kind not in _STATE}
    return {place: window if kind in _SLIDING else None for place, kind in kept.items()}


def _latent(text: PreTrainedConfig) -> int:
    """Return the numbers of a token, with the key of an indexer that picks tokens (DeepSeek-V3.2)."""
    parts = ("kv_lora_rank", "qk_rope_head_dim", "index_head_dim")
    return sum(int(getattr(text, name, None) or 0) for name in parts)
