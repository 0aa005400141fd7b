"""Receipts: what a weight sync sent and what each engine's worker loaded, as fingerprints of tensors.

A fingerprint is a tensor's precision, shape and checksum, which sender and receiver compute alike. The
checksum is over the bits, as integers modulo 2^64, where sums are exact in any order: CPUs and GPUs get the
same number for the same bits. Each element has a weight by its position, so that swapped rows or a transposed
square give another number. Checksums find mistakes; they are no defence against intent.

Receipts contain plain values only, so that they cross process boundaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from trainer.errors import StaleWeights

if TYPE_CHECKING:
    from torch import Tensor

    from .engines import Engines


CHUNK = 1 << 20
"""Elements at a time; each takes 24 bytes of temporary memory."""
SPREAD = -7046029254386353131
"""2^64 divided by the golden ratio, odd, as a signed integer: neighbours get unrelated weights."""
CARRY = 6364136223846793005
"""Factor of a chunk's sum that is carried into the next."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Precision, shape and checksum of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    checksum: str | None
    """Hexadecimal; None if it was not computed."""

    def differs(self, other: Fingerprint) -> str | None:
        """Describe the first difference; None if there is none. Checksums count where both have one."""
        if self.shape != other.shape:
            return f"the shape is {list(other.shape)} and not {list(self.shape)}"
        if self.dtype != other.dtype:
            return f"the precision is {other.dtype} and not {self.dtype}"
        known = self.checksum is not None and other.checksum is not None
        return "the values are others" if known and self.checksum != other.checksum else None


@dataclass(slots=True)
class TensorRecorder:
    """Records the fingerprints of tensors that pass through it."""

    contents: bool
    """Whether to compute checksums, too."""
    _seen: dict[str, tuple[str, tuple[int, ...], Tensor | None]] = field(default_factory=dict)

    def passing(self, tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yield the same tensors, each recorded before its receiver can change it."""
        for name, tensor in tensors:
            checksum = _checksum(tensor) if self.contents else None
            self._seen[name] = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), checksum)
            yield name, tensor

    def found(self) -> dict[str, Fingerprint]:
        """Return the fingerprints by name. This waits for the GPU, which ``passing`` does not."""
        return {
            name: Fingerprint(dtype, shape, None if checksum is None else f"{int(checksum) % 2**64:016x}")
            for name, (dtype, shape, checksum) in self._seen.items()
        }


@torch.no_grad()
def _checksum(tensor: Tensor) -> Tensor:
    """Return the checksum of the elements in order, on the tensor's device."""
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


Plain: TypeAlias = "dict[str, Any]"
"""A receipt as it travels between processes: dictionaries, lists and strings alone."""

NAMED = 3
"""Greatest number of tensors that a message names."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Tensors that one model worker loaded."""

    tensors: Mapping[str, Fingerprint]
    left_out: tuple[str, ...] = ()
    """Parameters of its model that were not loaded, or only in part."""


def encode_receipt(receipt: Receipt) -> Plain:
    """Return a receipt as plain values, which travel between processes."""
    tensors = {name: [each.dtype, list(each.shape), each.checksum] for name, each in receipt.tensors.items()}
    return {"tensors": tensors, "left_out": list(receipt.left_out)}


def decode_receipt(plain: Plain) -> Receipt:
    """Return the receipt that ``encode_receipt`` encoded."""
    tensors = {
        name: Fingerprint(dtype, tuple(shape), checksum)
        for name, (dtype, shape, checksum) in plain["tensors"].items()
    }
    return Receipt(tensors, tuple(plain["left_out"]))


class Delivery:
    """Records what one rank sends in each weight sync, and verifies the engines' receipts."""

    def __init__(self, checksum_every: int, rank: int) -> None:
        self._every = checksum_every
        self._rank = rank
        self._count = 0
        self._sent = TensorRecorder(contents=False)
        self._names: frozenset[str] = frozenset()

    @property
    def contents(self) -> bool:
        """Whether the current weight sync has checksums."""
        return self._sent.contents

    def begin(self) -> None:
        """Begin another weight sync."""
        self._sent = TensorRecorder(contents=self._rank == 0 and self._count % self._every == 0)
        self._count += 1

    def watched(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yield the same weights, recorded on rank 0; other ranks only gather them."""
        yield from self._sent.passing(weights) if self._rank == 0 else weights

    def verify(self, engines: Engines, version: int) -> None:
        """Compare the receipts of all engines' workers with what was sent; on rank 0.

        Raises:
            StaleWeights: an engine loaded other weights than were sent; names tensor, engine and version.
        """
        sent = self._sent.found()
        if self._names and frozenset(sent) != self._names:
            other = sorted(self._names ^ frozenset(sent))
            raise StaleWeights(
                f"the learner sent other tensors with version {version} than before: {_some(other)}"
            )
        self._names = frozenset(sent)
        answers = engines.each("return its receipts", lambda handle: handle.get_receipts())
        for name, (taken, plains) in answers.items():
            if taken != version:
                raise StaleWeights(f"{name} took version {taken} of the weights, and {version} was sent")
            if not plains:
                raise StaleWeights(f"{name} took nothing of version {version} of the weights")
            for plain in plains:
                _compare(name, version, sent, decode_receipt(plain))


def _compare(engine: str, version: int, sent: Mapping[str, Fingerprint], receipt: Receipt) -> None:
    of = f"of version {version} of the weights"
    if missing := sorted(sent.keys() - receipt.tensors.keys()):
        raise StaleWeights(f"{engine} did not get {_some(missing)} {of}")
    if surplus := sorted(receipt.tensors.keys() - sent.keys()):
        raise StaleWeights(f"{engine} got {_some(surplus)}, which is not part {of}")
    for name, expected in sent.items():
        if (wrong := expected.differs(receipt.tensors[name])) is not None:
            raise StaleWeights(f"{engine} got {name} {of} in another form than it was sent: {wrong}")
    if receipt.left_out:
        raise StaleWeights(
            f"{engine} still has former values in {_some(receipt.left_out)}: nothing {of} was loaded there, "
            "or not all"
        )


def _some(names: Iterable[str]) -> str:
    """Return the first few, and how many there are."""
    found = list(names)
    further = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + further
