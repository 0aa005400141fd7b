"""Attention over sequences that stand one after another in one row, each by itself.

transformers would do the same by a mask of (all tokens) x (all tokens), whose cost grows with the square of
the row; here it is that of the sequences alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedConfig

__all__ = ["attention_for", "sequence_attention"]

_NAME = "sequence_sdpa"


def attention_for(config: PreTrainedConfig, layout: str) -> str:
    """Name of the attention that a model is loaded with; it has been made known to transformers.

    Models with a sliding window get transformers' own, whose masks know about windows.
    """
    windows = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    if layout == "padded" or windows:
        return "sdpa"
    AttentionInterface.register(_NAME, sequence_attention)
    return _NAME


def sequence_attention(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    sequence_lengths: tuple[int, ...] | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **_: Any,  # noqa: ANN401
) -> tuple[Tensor, None]:
    """Causal attention within each sequence.

    Args:
        module: the layer.
        query: (1, heads, tokens, size); key and value alike, with their own heads.
        key: see query.
        value: see query.
        attention_mask: never there.
        sequence_lengths: tokens of each sequence, which make up all tokens.
        dropout: share of attention that is dropped.
        scaling: of the scores.

    Returns:
        (1, tokens, heads, size), and None where others return attention weights.

    Raises ValueError without lengths, which a model of one's own may not hand on.
    """
    if sequence_lengths is None:
        raise ValueError("the model does not tell its attention where sequences end; use layout=padded")
    queries, keys, values = (torch.split(each, list(sequence_lengths), dim=2) for each in (query, key, value))
    outputs = [
        sdpa_attention_forward(module, q, k, v, attention_mask, dropout=dropout, scaling=scaling)[0]
        for q, k, v in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(outputs, dim=1), None
