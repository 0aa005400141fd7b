"""Transport through a safetensors file in shared memory or on a shared disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainer.weight_sync.snapshots import snapshot_folder, spare_snapshot_folder

from .receipt import Delivery
from .weights import complete, file_weights, wire_dtype

if TYPE_CHECKING:
    from trainer.config.parts import SyncSettings
    from trainer.weight_sync.choice import Device

    from .engines import Engines
    from .weights import WeightOwner


class SharedFile:
    """Writes the file while engines still sample; they pause only to read it."""

    pauses = True

    def __init__(self, settings: SyncSettings, learner: WeightOwner, rank: int, device: Device) -> None:
        self._folder = snapshot_folder(settings.folder, settings.sync.folder)
        self._spare = spare_snapshot_folder(settings.folder)
        self._learner = learner
        self._rank = rank
        self._dtype = wire_dtype(settings, device)
        self._path: Path | None = None
        self.delivery = Delivery(settings.sync.checksum_every, rank)

    def gather(self, version: int) -> int:
        self.delivery.begin()
        weights = self.delivery.watched(complete(self._learner.named_weights(), self._dtype))
        if self._rank != 0:
            for _ in weights:
                pass
            return 0
        self._path, size = file_weights(self._folder, self._spare, version, weights)
        return size

    def transfer(self, version: int, engines: Engines) -> int:
        if self._rank == 0:
            info = {"path": str(self._path)}
            engines.each("begin an update", lambda handle: handle.begin_update(self.delivery.contents))
            engines.each("load the weights", lambda handle: handle.update_weights(info))
            engines.each("finish an update", lambda handle: handle.finish_update(version))
        return 0

    def keep(self, version: int) -> None:
        """Do nothing: the file is the snapshot."""

    def await_snapshot(self) -> None:
        """Do nothing: the file was complete before the transfer."""

    def close(self) -> None:
        """Keep the files for engines that restart."""
