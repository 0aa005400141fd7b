"""What a tensor was, in a few numbers that sender and receiver compute alike: precision, shape, checksum.

The checksum is over the bits, as integers modulo 2^64, where sums are exact in any order: CPUs and GPUs get
the same number for the same bits. Each element counts with a weight by its position, so that rows that
changed places, or a transposed square, give another one. It finds mistakes, and is no defence against intent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


CHUNK = 1 << 20
"""Elements at a time, which take 24 bytes each meanwhile."""
SPREAD = -7046029254386353131
"""2^64 divided by the golden ratio, odd, as a signed integer: neighbours get unrelated weights."""
CARRY = 6364136223846793005
"""Of one chunk's sum into the next."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    checksum: str | None
    """Hexadecimal; None where the contents were not looked at."""

    def differs(self, other: Fingerprint) -> str | None:
        """In what, in words; checksums count where both have one."""
        if self.shape != other.shape:
            return f"the shape is {list(other.shape)} and not {list(self.shape)}"
        if self.dtype != other.dtype:
            return f"the precision is {other.dtype} and not {self.dtype}"
        known = self.checksum is not None and other.checksum is not None
        return "the values are others" if known and self.checksum != other.checksum else None


@dataclass(slots=True)
class Recorder:
    """Takes note of tensors as they pass."""

    contents: bool
    """Compute checksums, too."""
    _seen: dict[str, tuple[str, tuple[int, ...], Tensor | None]] = field(default_factory=dict)

    def passing(self, tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same tensors; each is noted before whoever takes it can change it."""
        for name, tensor in tensors:
            checksum = _checksum(tensor) if self.contents else None
            self._seen[name] = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), checksum)
            yield name, tensor

    def found(self) -> dict[str, Fingerprint]:
        """By name. A GPU is waited for here, and not at each tensor."""
        return {
            name: Fingerprint(dtype, shape, None if checksum is None else f"{int(checksum) % 2**64:016x}")
            for name, (dtype, shape, checksum) in self._seen.items()
        }


@torch.no_grad()
def _checksum(tensor: Tensor) -> Tensor:
    """Of the elements in order; one number, which stays on the tensor's device."""
    flat = tensor.detach().contiguous().view(-1)
    bits = flat.view(_BITS[flat.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    if not bits.numel():
        return total
    positions = torch.arange(1, min(CHUNK, bits.numel()) + 1, dtype=torch.int64, device=bits.device)
    weights = positions * SPREAD
    weights ^= weights >> 29
    for chunk in torch.split(bits, CHUNK):
        total = total * CARRY + (chunk.to(torch.int64) * weights[: chunk.numel()]).sum()
    return total
