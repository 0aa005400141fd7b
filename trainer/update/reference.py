"""The reference model: the policy as it was when the stage began.

It is not a second model but the first values of what is trained, which take the place of the present ones
while the reference is asked: a copy of the shards with FSDP2, of the adapter alone with LoRA (whose first
values are those of no adapter).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor
    from torch.nn import Parameter

__all__ = ["Reference"]


class Reference:
    """First values of some parameters."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = {
            name: parameter for name, parameter in parameters.items() if not name.startswith("value_head.")
        }
        self.values: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }
        """By name, to be saved and to be loaded into."""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model is the reference while the block runs."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self._parameters.items():
            present = parameter.detach().clone()
            parameter.copy_(self.values[name])
            self.values[name].copy_(present)
