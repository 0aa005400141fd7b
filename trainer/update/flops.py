"""How much arithmetic an update is, and what share of the device's peak that makes (MFU).

Model FLOPs as PaLM counts them (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix B): 6 for
each weight that a token is multiplied with, forward and backward, and 12 L H Q T for attention to a sequence
of T tokens by L layers of H heads of size Q, causal or not. A frozen weight counts 4, since it has no
gradient of its own; experts that a token does not see, tokens that do not pass the head, and what is
computed again (checkpointing) do not count. The first passes of a step (log-probabilities before it, and the
reference's) are no part of an update.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import ActorCritic
    from .packing import Row

__all__ = ["PEAKS", "Meter", "Work", "peak_flops"]

PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H20": 148e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A40": 150e12,
    "A10": 125e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
    "MI300X": 1307e12,
}
"""FLOP/s of dense bfloat16 matrices by a part of the device's name, from the makers' data sheets."""

_SIZES = {"cpu": 768, "cuda": 8192}
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs of one update for a token, by what it depends on."""

    of_token: float
    """Of any token."""
    of_kept: float
    """More, for tokens that pass the head."""
    of_pair: float
    """More, for each token of its own sequence."""

    @classmethod
    def of(cls, core: ActorCritic) -> Work:
        """The work of a model, before it is divided over ranks or after."""
        language = core.language
        config = language.config.get_text_config()
        experts = int(getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None) or 1)
        active = int(getattr(config, "num_experts_per_tok", None) or experts) / experts
        embedding = language.get_input_embeddings()
        head = language.get_output_embeddings()  # type: ignore[no-untyped-call]
        apart = {id(embedding.weight), id(head.weight)}
        body = sum(
            (6.0 if weight.requires_grad else 4.0) * weight.numel() * (active if ".experts." in name else 1.0)
            for name, weight in language.named_parameters()
            if weight.ndim > 1 and id(weight) not in apart
        )
        heads = int(config.num_attention_heads)
        size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        return cls(
            of_token=body,
            of_kept=(6.0 if head.weight.requires_grad else 4.0) * head.weight.numel(),
            of_pair=12.0 * int(config.num_hidden_layers) * heads * size,
        )

    def flops(self, lengths: Sequence[int], kept: int) -> float:
        """Of one pass over sequences of these lengths, with so many tokens that pass the head."""
        return (
            self.of_token * sum(lengths)
            + self.of_kept * kept
            + self.of_pair * sum(length * length for length in lengths)
        )


class Meter:
    """Of one rank's model: speed of updates."""

    def __init__(self, core: ActorCritic, device: torch.device, world: int, *, half: bool) -> None:
        self._work = Work.of(core)
        self._world = world
        self._peak = peak_flops(device, half=half)  # now, since it takes memory that an update needs

    def metrics(self, rows: Sequence[Row], passes: int, seconds: float) -> dict[str, float]:
        """Tokens a second of all ranks and of each, and MFU, of updates that saw all rows so many times."""
        lengths = [len(row) for row in rows]
        flops = passes * self._work.flops(lengths, sum(int(row.kept_T.sum()) for row in rows))
        rate = passes * sum(lengths) / seconds
        return {
            "throughput/update_tokens_per_s": rate,
            "throughput/update_tokens_per_s_per_worker": rate / self._world,
            "throughput/mfu": flops / seconds / (self._world * self._peak),
        }


def peak_flops(device: torch.device, *, half: bool) -> float:
    """FLOP/s of a device: of the table for a known GPU that computes in bfloat16, else measured.

    What is measured is the best of a few large matrix products, so that MFU is there on any machine; it is a
    little below what a data sheet would say.
    """
    if device.type == "cuda" and half:
        name = torch.cuda.get_device_name(device)
        for part, flops in PEAKS.items():
            if part in name:
                return flops
    return _measured(device, torch.bfloat16 if half else torch.float32)


@cache
def _measured(device: torch.device, dtype: torch.dtype) -> float:
    size = _SIZES.get(device.type, 1024)
    factor = torch.ones(size, size, device=device, dtype=dtype)
    seconds = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        (factor @ factor)[0, 0].item()  # which waits for the device
        seconds.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(seconds)
