"""Write snapshots of weights that are on a GPU, in a thread, while training goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.errors import ConfigError, Stalled

from .weights import file_weights

if TYPE_CHECKING:
    from torch import Tensor


logger = logging.getLogger(__name__)


class SnapshotWriter:
    """Copies weights to host memory, and writes the copies to a snapshot file in a thread.

    The copies stay in memory for the next snapshot, since allocating them takes longer than copying.
    """

    def __init__(self, folder: Path, spare: Path, timeout_s: float) -> None:
        self._folder = folder
        self._spare = spare
        self._timeout_s = timeout_s
        self._copies: dict[str, Tensor] = {}
        self._written: Future[object] | None = None

    def begin_snapshot(self, version: int, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy the weights and begin to write them, after the snapshot before is complete.

        Raises:
            ConfigError: there was no room for the snapshot before.
            OSError: the snapshot before could not be written.
            Stalled: the snapshot before is still not complete.
        """
        self.await_snapshot()
        for name, tensor in weights:
            copy = self._copies.get(name)
            if copy is None or (copy.shape, copy.dtype) != (tensor.shape, tensor.dtype):
                copy = self._copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            copy.copy_(tensor)
        self._written = written = Future[object]()

        def write() -> None:
            try:
                written.set_result(file_weights(self._folder, self._spare, version, self._copies.items()))
            except BaseException as error:  # noqa: BLE001 - raised by ``await_snapshot``
                logger.warning("the weight snapshot of version %d was not written: %s", version, error)
                written.set_exception(error)

        threading.Thread(target=write, name="weight snapshot", daemon=True).start()

    def await_snapshot(self) -> None:
        """Return when the last snapshot is complete.

        Raises:
            ConfigError: there was no room for it.
            OSError: it could not be written.
            Stalled: it is still not complete after ``timeout_s``.
        """
        if self._written is None:
            return
        try:
            self._written.result(self._timeout_s)
        except TimeoutError:
            raise Stalled(f"a weight snapshot was not written within {self._timeout_s:g} s") from None
        self._written = None

    def close(self) -> None:
        """Wait for the last snapshot, whose folder may be removed afterwards; a failure is logged."""
        try:
            self.await_snapshot()
        except Stalled as error:
            logger.warning("%s", error)
        except (ConfigError, OSError):
            pass  # logged by the thread
