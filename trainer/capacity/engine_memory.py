"""Estimate the memory of a rollout engine on one GPU: weights, working memory, and KV cache.

vLLM fills its share of a GPU (``gpu_memory_utilization``): what weights and a profiling pass leave of it
becomes the cache (https://docs.vllm.ai/en/latest/configuration/conserving_memory.html); ``cache`` computes
what a conversation takes of it. The profiling pass is an estimate here; vLLM measures it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cache import BATCHED_TOKENS
from .machine import GIB

if TYPE_CHECKING:
    from trainer.config import EngineConfig
    from trainer.update.memory import ModelShape
    from trainer.weight_sync.choice import Device


_GRAPHS = GIB
"""CUDA graphs of the default batch sizes, which vLLM allocates beyond its share; half to one GiB is usual."""
_FLOAT32 = 4
_CPU_CACHE_MIB = 256


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes on each GPU of an engine, or in host memory."""

    weights: int
    adapters: int
    working: int
    """Activations of the largest pass, logits of all sequences, CUDA graphs."""
    cache: int
    """Keys and values; negative where the rest leaves no room."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.weights + self.adapters + self.working + max(0, self.cache)


def number_bytes(dtype: str, device: Device) -> int:
    """Bytes of a weight in the precision that engines compute in."""
    name = dtype if dtype != "auto" else ("float32" if device == "cpu" else "bfloat16")
    return _FLOAT32 if name == "float32" else 2


def engine_memory(
    shape: ModelShape, adapter: int, engine: EngineConfig, device: Device, gpu_memory: int | None
) -> EngineMemory:
    """Return the memory of one GPU of an engine, or of an engine on a CPU.

    Args:
        shape: the sampled model's shape, without adapters and critic.
        adapter: parameters of a LoRA adapter that engines load; 0 without.
        engine: the engine's settings.
        device: the engines' device.
        gpu_memory: memory of the GPU; None on a CPU, and where it is unknown.
    """
    size = number_bytes(engine.dtype, device)
    parallel = engine.tensor_parallel
    weights = size * shape.parameters // parallel
    adapters = 2 * size * adapter
    layer = shape.layer
    working = BATCHED_TOKENS * size * (4 * layer.hidden + 2 * layer.intermediate // parallel)
    working += 2 * _FLOAT32 * engine.max_sequences * shape.vocabulary
    if device == "cuda" and not engine.eager:
        working += _GRAPHS
    if engine.kv_cache_mib is not None or device == "cpu":
        cache = (engine.kv_cache_mib or _CPU_CACHE_MIB) << 20
    else:
        cache = int((gpu_memory or 0) * engine.gpu_memory_share) - weights - adapters - working
    return EngineMemory(weights, adapters, working, cache)
