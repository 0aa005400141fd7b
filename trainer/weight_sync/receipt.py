"""Receipts: engines say what they took of a weight sync, and it has to be what the learner sent.

The learner's side notes each tensor as it leaves, an engine's workers note each one before vLLM loads it,
with name, precision and shape at every weight sync and with a checksum at the first and each
``sync.checksum_every``-th. So what was lost, changed or exchanged on the way is found whatever the size of
the update was. Behind that vLLM copies tensors into its own layout, and says of each layer how much of it was
filled: what stayed empty is in the receipt, too. What vLLM makes of values that it did load is judged by
log-probabilities alone, and so is what the learner made of its weights before they left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from trainer.errors import StaleWeights

from .fingerprint import Fingerprint, Recorder

if TYPE_CHECKING:
    from torch import Tensor

    from .engines import Engines


Plain: TypeAlias = "dict[str, Any]"
"""A receipt as it travels between processes: dictionaries, lists and strings alone."""

NAMED = 3
"""Tensors that a message names."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Of one model worker."""

    tensors: Mapping[str, Fingerprint]
    left_out: tuple[str, ...] = ()
    """Parameters of its model that got no values, or only some."""


def said(receipt: Receipt) -> Plain:
    """For the way."""
    tensors = {name: [each.dtype, list(each.shape), each.checksum] for name, each in receipt.tensors.items()}
    return {"tensors": tensors, "left_out": list(receipt.left_out)}


def understood(plain: Plain) -> Receipt:
    """After it."""
    tensors = {
        name: Fingerprint(dtype, tuple(shape), checksum)
        for name, (dtype, shape, checksum) in plain["tensors"].items()
    }
    return Receipt(tensors, tuple(plain["left_out"]))


class Delivery:
    """What one rank sends, weight sync by weight sync, and whether it arrived."""

    def __init__(self, checksum_every: int, rank: int) -> None:
        self._every = checksum_every
        self._rank = rank
        self._count = 0
        self._sent = Recorder(contents=False)
        self._names: frozenset[str] = frozenset()

    @property
    def contents(self) -> bool:
        """Whether the weight sync that was begun last has checksums."""
        return self._sent.contents

    def begin(self) -> None:
        """Another weight sync."""
        self._sent = Recorder(contents=self._rank == 0 and self._count % self._every == 0)
        self._count += 1

    def watched(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The same weights, noted as they leave; on other ranks than 0 they are only gathered."""
        yield from self._sent.passing(weights) if self._rank == 0 else weights

    def verify(self, engines: Engines, version: int) -> None:
        """On rank 0, of every engine and each of its workers.

        Raises:
            StaleWeights: one took something else than was sent; names tensor, engine and version.
        """
        sent = self._sent.found()
        if self._names and frozenset(sent) != self._names:
            other = sorted(self._names ^ frozenset(sent))
            raise StaleWeights(
                f"the learner sent other tensors with version {version} than before: {_some(other)}"
            )
        self._names = frozenset(sent)
        answers = engines.each("say what it took", lambda handle: handle.get_receipts())
        for name, (taken, plains) in answers.items():
            if taken != version:
                raise StaleWeights(f"{name} took version {taken} of the weights, and {version} was sent")
            if not plains:
                raise StaleWeights(f"{name} took nothing of version {version} of the weights")
            for plain in plains:
                _compare(name, version, sent, understood(plain))


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
    """The first few, and how many there are."""
    found = list(names)
    further = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + further
