"""The reference model: the policy at the start of the stage.

It is not a second model but a copy of the trained parameters' initial values, which are swapped in while the
reference is evaluated: a copy of the shards with FSDP2, of the adapter alone with LoRA (whose initial values
are those of no adapter).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter


class Reference:
    """Initial values of the trained parameters."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = {
            name: parameter for name, parameter in parameters.items() if not name.startswith("value_head.")
        }
        self.values: dict[str, Tensor] = {
            name: parameter.detach().clone() for name, parameter in self._parameters.items()
        }
        """By name, to save them and to load into them."""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Swap the reference's values into the model for the duration of the block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def restore(self) -> None:
        """Put the reference's values into the model for good."""
        self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self._parameters.items():
            present = parameter.detach().clone()
            parameter.copy_(self.values[name])
            self.values[name].copy_(present)
