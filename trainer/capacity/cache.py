"""Compute what an engine keeps of a conversation: the keys and values of its tokens, layer by layer.

A layer of full attention keeps 2 x key-value heads x head size numbers of each token (Kwon et al. 2023,
https://arxiv.org/abs/2309.06180, section 2.2). One with a sliding window keeps them of the window's tokens
and, as vLLM reserves it, of a batch in flight; one of linear attention, state space or convolution keeps a
state whose size does not depend on the conversation, which is left out. Multi-head latent attention keeps
one compressed vector and the rotated part of one key (DeepSeek-V2, https://arxiv.org/abs/2405.04434, section
2.1). A layer whose type is unknown counts as full attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
class CacheShape:
    """Numbers that the layers of a model keep of a conversation."""

    full: int
    """Layers that keep all tokens."""
    sliding: int
    """Layers that keep a window."""
    window: int
    heads: int
    """Parts of a token's numbers that tensor parallelism divides; fewer than GPUs are replicated."""
    numbers: int
    """Numbers of a token in each of these parts."""

    @classmethod
    def of(cls, shape: ModelShape, text: PreTrainedConfig) -> CacheShape:
        """Return it for a model's shape and the configuration of its language model."""
        count = len(shape.layers)
        types = list(getattr(text, "layer_types", None) or ())
        if len(types) != count:
            types = ["full_attention"] * count
        window = int(getattr(text, "sliding_window", None) or 0)
        sliding = sum(each in _SLIDING for each in types) if window else 0
        latent = getattr(text, "kv_lora_rank", None)
        compressed = latent is not None and text.model_type not in _WHOLE_HEADS
        return cls(
            full=count - sliding - sum(each in _STATE for each in types),
            sliding=sliding,
            window=window,
            heads=1 if compressed else shape.layer.key_heads,
            numbers=_latent(text) if compressed else 2 * shape.layer.head,
        )

    def conversation_bytes(self, tokens: int, size: int, tensor_parallel: int) -> int:
        """Return the bytes of a conversation on each GPU of an engine, at ``size`` bytes a number."""
        kept = self.full * tokens + self.sliding * min(tokens, self.window + BATCHED_TOKENS)
        return kept * max(1, self.heads // tensor_parallel) * self.numbers * size


def _latent(text: PreTrainedConfig) -> int:
    """Return the numbers of a token, with the key of an indexer that picks tokens (DeepSeek-V3.2)."""
    parts = ("kv_lora_rank", "qk_rope_head_dim", "index_head_dim")
    return sum(int(getattr(text, name, None) or 0) for name in parts)
