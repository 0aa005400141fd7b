"""Attention within each sequence of a row, for all attention variants of current decoder models.

transformers would mask a packed row with (all tokens) x (all tokens), whose cost grows with the square of
the row length; here the cost is that of the sequences alone. Sliding windows, soft-capped scores (Gemma 2)
and attention sinks (gpt-oss) are supported too, which PyTorch's fused attention silently ignores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from .varlen import takes_varlen, varlen_attention

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


SEQUENCE_ATTENTION = "sequence_attention"
"""The name registered with transformers. It has no mask function, so models pass no mask."""


def register_sequence_attention() -> str:
    """Register the attention with transformers and return its name."""
    AttentionInterface.register(SEQUENCE_ATTENTION, sequence_attention)
    return SEQUENCE_ATTENTION


def sequence_attention(  # noqa: PLR0913 - the signature is transformers'
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    sequence_lengths: tuple[int, ...] | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,  # noqa: ANN401
) -> tuple[Tensor, None]:
    """Compute causal attention within each sequence.

    Args:
        module: the layer.
        query: (rows, heads, tokens, size); one row when sequences are packed.
        key: like the query, with its own number of heads.
        value: like the key, with its own size.
        attention_mask: always None.
        sequence_lengths: tokens of each packed sequence, which add up to all tokens; without them each row is
            one sequence, padded on the right.
        dropout: share of the attention that is dropped.
        scaling: factor of the scores.
        sliding_window: tokens that a token sees, itself included; all before it when None.
        softcap: bound of the scores, by a tanh.
        s_aux: (heads), the score of each head's attention sink.

    Returns:
        (rows, tokens, heads, size), and None where others return attention weights.

    Raises:
        ValueError: a layer with a window does not hand it over.
    """
    if sliding_window is None and _has_window(module):
        raise ValueError(
            f"{type(module).__name__} does not pass its sliding window to its attention function"
        )
    plain = softcap is None and s_aux is None
    if sequence_lengths is not None and plain and not dropout and takes_varlen(query, value):
        return varlen_attention(query, key, value, sequence_lengths, scaling, sliding_window), None
    lengths = [query.shape[2]] if sequence_lengths is None else list(sequence_lengths)
    outputs = []
    for q, k, v in zip(*(torch.split(each, lengths, dim=2) for each in (query, key, value)), strict=True):
        mask = _window_mask(q, sliding_window)
        if plain:
            attended = sdpa_attention_forward(module, q, k, v, mask, dropout, scaling, is_causal=True)[0]
            outputs.append(attended)
        else:
            outputs.append(_attend(q, k, v, mask, scaling, dropout, softcap, s_aux))
    return torch.cat(outputs, dim=1), None


def _has_window(module: Module) -> bool:
    """Return whether the configuration gives this layer a sliding window."""
    types = getattr(getattr(module, "config", None), "layer_types", None)
    index = getattr(module, "layer_idx", None)
    return types is not None and index is not None and types[index] == "sliding_attention"


def _causal(tokens: int, window: int | None, device: torch.device) -> Tensor:
    """Return a (tokens, tokens) mask, true where the row's token may attend to the column's token."""
    seen = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
    return seen if window is None else seen.triu(1 - window)


def _window_mask(query: Tensor, window: int | None) -> Tensor | None:
    """Return a window mask when the sequence is longer than the window, and None otherwise."""
    tokens = query.shape[2]
    if window is None or tokens <= window:
        return None
    return _causal(tokens, window, query.device)[None, None]


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    dropout: float,
    softcap: float | None,
    sinks_H: Tensor | None,
) -> Tensor:
    """Compute attention explicitly, for features that PyTorch's fused attention lacks."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    seen = _causal(query.shape[2], None, query.device) if mask is None else mask
    scores = scores.float().masked_fill(~seen, -torch.inf)
    if sinks_H is not None:  # the sink takes a share of the attention and is then dropped
        sinks = sinks_H.float().reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    shares = scores.softmax(-1)[..., : key.shape[2]].to(value.dtype)
    shares = functional.dropout(shares, dropout)
    return (shares @ value).transpose(1, 2).contiguous()
