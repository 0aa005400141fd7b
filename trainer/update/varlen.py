"""Run PyTorch's variable-length flash attention on packed sequences, on GPUs that support it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

import torch

if TYPE_CHECKING:
    from torch import Tensor


_MOST_SIZE = 256
"""Greatest head size for which flash attention has kernels."""
_LEAST_CAPABILITY = (8, 0)
"""Least CUDA capability: Ampere."""


class VarlenKernel(Protocol):
    """Signature of ``torch.nn.attention.varlen.varlen_attn``."""

    def __call__(  # noqa: PLR0913
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seq_q: Tensor,
        cu_seq_k: Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float | None,
        window_size: tuple[int, int],
        enable_gqa: bool,
    ) -> Tensor: ...


def takes_varlen(query: Tensor, value: Tensor) -> bool:
    """Return whether the kernel supports the device, the precision and the head sizes."""
    return (
        query.is_cuda
        and _dtype(query) in (torch.bfloat16, torch.float16)
        and query.shape[-1] == value.shape[-1] <= _MOST_SIZE
        and torch.cuda.get_device_capability(query.device) >= _LEAST_CAPABILITY
    )


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: tuple[int, ...],
    scaling: float | None,
    window: int | None,
    kernel: VarlenKernel | None = None,
) -> Tensor:
    """Compute causal attention within each sequence of a packed row.

    Args:
        query: (1, heads, tokens, size).
        key: like the query, with its own number of heads.
        value: like the key.
        lengths: tokens of each sequence, which add up to all tokens.
        scaling: factor of the scores; 1/sqrt(size) when None.
        window: tokens that a token sees, itself included; all before it when None.
        kernel: replaces PyTorch's kernel, for tests.

    Returns:
        (1, tokens, heads, size).
    """
    bounds, longest = _bounds(lengths, query.device), max(lengths)
    dtype = _dtype(query)
    q, k, v = (each[0].transpose(0, 1).to(dtype).contiguous() for each in (query, key, value))
    attended = (kernel or _torch_kernel())(
        q,
        k,
        v,
        bounds,
        bounds,
        longest,
        longest,
        scale=scaling,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return attended[None]


def _torch_kernel() -> VarlenKernel:
    from torch.nn.attention.varlen import varlen_attn

    return cast(
        "VarlenKernel", varlen_attn
    )  # the kernel returns a lone tensor unless auxiliary outputs are requested


def _dtype(query: Tensor) -> torch.dtype:
    """Return autocast's precision for attention; autocast does not know this kernel."""
    kind = query.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype


@lru_cache(maxsize=4)
def _bounds(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Return cumulative sequence bounds, cached because every layer of a pass needs the same ones."""
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    return ends.to(device)
