"""Adapters to vLLM's weight transfers: a source of weights, and a client that calls all engines."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource

from local_processes.threads import AbandonedError, run_in_thread
from trainer.errors import EngineError, EngineLost, Stalled

from .weights import complete, piece_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from .engines import Engines
    from .receipt import Delivery
    from .weights import WeightOwner


class LearnerSource(WeightSource):
    """Source of a learner's weights for vLLM."""

    def __init__(self, learner: WeightOwner, dtype: torch.dtype, delivery: Delivery) -> None:
        self._learner = learner
        self._delivery = delivery
        self._dtype = dtype
        self._metadata: list[ParamMeta] | None = None

    def metadata(self) -> list[ParamMeta]:
        """Return names, precisions and shapes; gathers the weights once, at the first call."""
        if self._metadata is None:
            self._metadata = [
                ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self._weights()
            ]
        return self._metadata

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        yield from self._delivery.watched(self._weights())

    def bytes(self) -> int:
        """Return the bytes of all weights."""
        return sum(map(_bytes, self.metadata()))

    def piece_bytes(self) -> int:
        """Return the bytes of a buffer that each of the weights fits into."""
        return piece_bytes(self.bytes(), max(map(_bytes, self.metadata())))

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        return complete(self._learner.named_weights(), self._dtype)


def _bytes(meta: ParamMeta) -> int:
    return meta.dtype.itemsize * torch.Size(meta.shape).numel()


class EnginesClient:
    """Client for vLLM's transfers; a call fails if it loses an engine, since the others would wait for it."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.engines: Engines | None = None
        """Engines of the weight sync in progress."""
        self.version = 0
        """Version of the weight sync in progress."""
        self.workers: dict[str, int] = {}
        """Model workers of each engine, by name, in the order of their ranks."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Connect the engines; their workers get consecutive ranks, engine by engine."""
        offsets: dict[str, int] = {}
        offset = int(init_info.get("rank_offset", 0))
        for name, workers in self.workers.items():
            offsets[name] = offset
            offset += workers

        def info(name: str) -> Mapping[str, object]:
            return {**init_info, "rank_offset": offsets[name]} if "rank_offset" in init_info else init_info

        self._all("connect to the learner", lambda engines: engines.each("connect", _connect(info)))

    def start_weight_update(self) -> None:
        """Prepare the engines for an update."""
        contents = self._delivery.contents
        self._all(
            "begin an update",
            lambda engines: engines.each("begin", lambda handle: handle.begin_update(contents)),
        )

    def update_weights(self, update_info: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Have the engines load weights. Workers accept the pickled IPC handles on their machine only."""
        if isinstance(update_info, list):
            raise EngineError("vLLM sent weights by engine, but all engines get the same")
        info = dict(update_info)
        if (handles := info.pop("ipc_handles", None)) is not None:
            info["ipc_handles_pickled"] = base64.b64encode(pickle.dumps(handles)).decode()
        self._all(
            "load weights", lambda engines: engines.each("update", lambda handle: handle.update_weights(info))
        )

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Finish the update under vLLM's version, or else the weight sync's."""
        version = int(weight_version) if weight_version is not None else self.version
        self._all(
            "finish", lambda engines: engines.each("finish", lambda handle: handle.finish_update(version))
        )

    def _all(self, what: str, call: Callable[[Engines], object]) -> None:
        if self.engines is None:
            raise EngineError(f"no weight sync is in progress to {what}")
        before = len(self.engines.lost)
        call(self.engines)
        if len(self.engines.lost) > before:
            # The other engines would wait for it in a collective operation that never completes.
            raise EngineLost(f"{self.engines.lost[-1].name} died when engines were asked to {what}")


def _connect(info: Callable[[str], Mapping[str, object]]) -> Callable[[Any], Any]:
    return lambda handle: handle.connect_learner(info(handle.name))


def within(timeout_s: float, what: str, work: Callable[[], None]) -> None:
    """Run work in a thread with a deadline: a collective operation whose peer died never returns.

    Raises:
        Stalled: the work did not return. Its thread is abandoned, and the process should end.
    """
    device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run() -> None:
        if device is not None:
            torch.cuda.set_device(device)  # the current device is a thread's own
        work()

    try:
        run_in_thread(run, name=what, timeout_s=timeout_s)
    except AbandonedError as error:
        raise Stalled(str(error)) from None
