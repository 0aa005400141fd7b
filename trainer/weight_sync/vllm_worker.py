"""The engine's end of a shared file: vLLM imports this module in each of its workers, and nobody else does.

vLLM finds a weight transfer by its name in a table of the worker's process; importing this module enters
``shared_file`` into it. The worker notes what is loaded, whatever the transfer is (see ``receipt``). It also
makes a worker that is a process of its own end with the process that started it: vLLM's does not watch its
parent, and would keep the GPU's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

from .fingerprint import Recorder
from .receipt import Receipt, said
from .vllm_loading import left_out
from .worker_life import end_with_parent

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .receipt import Plain


NAME = "shared_file"
ADAPTER_FILE = "adapter_model.safetensors"


def _tensors(path: str) -> Iterator[tuple[str, Tensor]]:
    """One tensor at a time, mapped from the file."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - the file is no mapping
            yield name, file.get_tensor(name)


def _begin(model: nn.Module) -> None:
    from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

    initialize_layerwise_reload(model)


def _load(model: Any, path: str) -> None:  # noqa: ANN401 - vLLM's models have no common type
    model.load_weights(_tensors(path))


def _finish(model: nn.Module, model_config: object) -> None:
    from vllm.model_executor.model_loader import reload

    finalize: Any = reload.finalize_layerwise_reload
    finalize(model, model_config)


@dataclass
class FileInit(WeightTransferInitInfo):
    """There is nothing to agree on beforehand."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """One weight sync."""

    path: str = ""
    """A safetensors file with all weights under Hugging Face's names."""


class SharedFileTransfer(WeightTransferEngine[FileInit, FileUpdate]):
    """Weights from a file that learner and engine both see."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Nothing to connect."""

    def start_weight_update(self) -> None:
        """Layers take weights as they come."""
        _begin(self.model)

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Load all of the file."""
        _load(self.model, update_info.path)

    def update_weights(self, update_info: dict[str, object]) -> None:
        """Without the base's wait for an accelerator where there is none."""
        if self.device.type == "cpu":
            self.receive_weights(self.parse_update_info(update_info))
        else:
            super().update_weights(update_info)

    def finish_weight_update(self) -> None:
        """Layers pack what they took."""
        _finish(self.model, self.model_config)

    def shutdown(self) -> None:
        """Nothing to release."""


class WeightSyncWorker:
    """Mixed into vLLM's worker, whatever the transfer is."""

    _recorder: Recorder | None = None
    """Of the weight sync that is coming in."""

    def record_weights(self, contents: bool) -> None:
        """Note what is loaded from now on, with checksums of the contents or without."""
        model = self._synced_model()
        own, recorder = model.load_weights, Recorder(contents)

        def load_weights(weights: Any) -> Any:  # noqa: ANN401 - as the model's own
            return own(recorder.passing(weights))

        model.load_weights = load_weights
        self._recorder = recorder

    def weights_receipt(self) -> Plain:
        """What was loaded since. Asked for before the update is finished, which forgets what was not."""
        recorder = self._recorder
        if recorder is None:
            raise RuntimeError("nothing was recorded: no update was begun")
        model = self._synced_model()
        del model.load_weights  # the instance's; the class's own is there again
        self._recorder = None
        return said(Receipt(recorder.found(), left_out(model)))

    def load_snapshot(self, path: str) -> Plain:
        """Take all weights from a file: how an engine that starts again catches up. What was loaded."""
        from vllm.config import set_current_vllm_config

        runner = self.model_runner  # type: ignore[attr-defined]
        with set_current_vllm_config(self.vllm_config):  # type: ignore[attr-defined]
            _begin(runner.model)
            self.record_weights(contents=True)
            _load(runner.model, path)
            receipt = self.weights_receipt()
            _finish(runner.model, runner.model_config)
        return receipt

    def adapter_receipt(self, number: int, folder: str) -> Plain:
        """What lies in an adapter's folder as this worker sees it, and whether vLLM holds the adapter."""
        recorder = Recorder(contents=True)
        for _ in recorder.passing(_tensors(f"{folder}/{ADAPTER_FILE}")):
            pass
        held = number in self.list_loras()  # type: ignore[attr-defined]
        return said(Receipt(recorder.found(), () if held else ("the adapter",)))

    def _synced_model(self) -> Any:  # noqa: ANN401 - vLLM's models have no common type
        transfer = getattr(self, "weight_transfer_engine", None)
        return self.model_runner.model if transfer is None else transfer.model  # type: ignore[attr-defined]


if NAME not in WeightTransferEngineFactory._registry:  # noqa: SLF001 - asked for before it is entered twice
    WeightTransferEngineFactory.register_engine(NAME, SharedFileTransfer)

end_with_parent()
