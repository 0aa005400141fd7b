"""Count the FLOPs of an update and the share of the device's peak that it reaches (MFU).

Model FLOPs as PaLM counts them (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix B): 6 for
each weight that a token is multiplied with, forward and backward, and 12 L H Q T for attention to a sequence
of T tokens by L layers of H heads of size Q, causal or not. A frozen weight counts 4, since it has no
gradient of its own. Inactive experts, tokens that do not pass the output layer, and recomputation
(checkpointing) do not count. The forward passes before learning (old and reference log-probabilities) are
not part of an update.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .architecture import attention_heads

if TYPE_CHECKING:
    from .model import ActorCritic
    from .packing import Row


PEAKS = {
    "GB200": 2500e12,
    "B200": 2250e12,
    "GH200": 989e12,
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
"""Peak dense bfloat16 FLOP/s by words of the device's name, the more special first, from the vendors' data
sheets."""

_SIZES = {"cpu": 768, "cuda": 8192}
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs of one update."""

    of_token: float
    """FLOPs for each token."""
    of_kept: float
    """Additional FLOPs for each token that passes the output layer."""
    of_pair: float
    """Additional FLOPs for each pair of tokens of one sequence."""

    @classmethod
    def of(cls, core: ActorCritic) -> Work:
        """Return the work of a model, sharded or not."""
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
        return cls(
            of_token=body,
            of_kept=(6.0 if head.weight.requires_grad else 4.0) * head.weight.numel(),
            of_pair=12.0 * sum(each.queries * each.size for each in attention_heads(config)),
        )

    def flops(self, lengths: Sequence[int], kept: int) -> float:
        """Return the FLOPs of one pass over sequences of these lengths, with ``kept`` tokens at the output
        layer.
        """
        return (
            self.of_token * sum(lengths)
            + self.of_kept * kept
            + self.of_pair * sum(length * length for length in lengths)
        )


class Meter:
    """Measure the speed of updates of one rank."""

    def __init__(self, core: ActorCritic, device: torch.device, world: int, *, half: bool) -> None:
        self._work = Work.of(core)
        self._world = world
        self._device, self._half = device, half
        # Measured here, because the measurement takes memory that an update needs later.
        self._peak = peak_flops(device, half=half)

    def metrics(self, rows: Sequence[Row], passes: int, seconds: float) -> dict[str, float]:
        """Return tokens per second, in total and per rank, and MFU, for updates that passed over all rows
        ``epochs`` times.
        """
        lengths = [len(row) for row in rows]
        flops = passes * self._work.flops(lengths, sum(int(row.kept_T.sum()) for row in rows))
        rate = passes * sum(lengths) / seconds
        return {
            "throughput/update_tokens_per_s": rate,
            "throughput/update_tokens_per_s_per_worker": rate / self._world,
            "throughput/mfu": self._share_of_peak(flops / seconds / self._world),
        }

    def _share_of_peak(self, flops: float) -> float:
        """Return the MFU of a rank that reached so many FLOP/s."""
        if flops > self._peak and self._device.type == "cpu":
            # Other work took the cores while the peak was measured. A rate that was reached bounds it, too.
            self._peak = max(flops, peak_flops(self._device, half=self._half))
        return flops / self._peak


def peak_flops(device: torch.device, *, half: bool) -> float:
    """Return a device's peak FLOP/s: from the table for a known GPU in bfloat16, and measured otherwise.

    The measurement takes the best of a few large matrix products, so that MFU is available on any machine;
    it is a little below a data sheet's figure, and far below it while other work takes the cores.
    """
    if device.type == "cuda" and half:
        known = known_peak(torch.cuda.get_device_name(device))
        if known is not None:
            return known
    return _measured(device, torch.bfloat16 if half else torch.float32)


def known_peak(name: str) -> float | None:
    """Return the peak of a GPU of this name in bfloat16; None where no data sheet is known.

    Words are compared, since an L40 is no L4 and an A10G no A10.
    """
    found = (flops for part, flops in PEAKS.items() if re.search(rf"\b{re.escape(part)}\b", name))
    return next(found, None)


def _measured(device: torch.device, dtype: torch.dtype) -> float:
    size = _SIZES.get(device.type, 1024)
    factor = torch.ones(size, size, device=device, dtype=dtype)
    seconds = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        (factor @ factor)[0, 0].item()  # .item() waits for the device to finish
        seconds.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(seconds)
