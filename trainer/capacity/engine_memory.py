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
_FP8 = "fp8"
_FP8_CACHES = ("fp8", "fp8_e4m3", "fp8_e5m2")
_RESIZING = ("cpu_offload_gb", "hf_overrides", "speculative_config", "kv_transfer_config")
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
    synced: int
    """Weights as a weight sync brings them, before an engine quantizes them; not part of the sum."""

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.weights + self.adapters + self.working + max(0, self.cache)


def number_bytes(dtype: str, device: Device) -> int:
    """Bytes of a weight in the precision that engines compute in."""
    name = dtype if dtype != "auto" else ("float32" if device == "cpu" else "bfloat16")
    return _FLOAT32 if name == "float32" else 2


def cache_number_bytes(engine: EngineConfig, device: Device) -> int:
    """Bytes of a number of the cache: those of the engine's precision, unless its arguments name another."""
    return 1 if engine.args.get("kv_cache_dtype") in _FP8_CACHES else number_bytes(engine.dtype, device)


def batched_tokens(engine: EngineConfig) -> int:
    """Tokens of the largest step of an engine."""
    wanted = engine.args.get("max_num_batched_tokens")
    return wanted if isinstance(wanted, int) else BATCHED_TOKENS


def unknown_sizes(engine: EngineConfig) -> tuple[str, ...]:
    """Return the engine's arguments that change its memory in a way that is not computed here."""
    names = [name for name in _RESIZING if engine.args.get(name)]
    if engine.args.get("quantization") not in (None, _FP8):
        names.append("quantization")
    if engine.args.get("kv_cache_dtype") not in (None, "auto", "bfloat16", "float16", *_FP8_CACHES):
        names.append("kv_cache_dtype")
    return tuple(names)


def _saved(shape: ModelShape, engine: EngineConfig, size: int) -> int:
    """Return the bytes that quantization to 8 bits saves: matrices of layers have one byte a number."""
    if engine.args.get("quantization") != _FP8:
        return 0
    matrices = (each.elements for layer in shape.layers for each in layer if len(each.shape) > 1)
    return (size - 1) * sum(matrices)


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
    weights = (size * shape.parameters - _saved(shape, engine, size)) // parallel
    adapters = 2 * size * adapter
    layer = shape.layer
    working = batched_tokens(engine) * size * (4 * layer.hidden + 2 * layer.intermediate // parallel)
    working += 2 * _FLOAT32 * engine.max_sequences * shape.vocabulary
    if device == "cuda" and not engine.eager:
        working += _GRAPHS
    if engine.kv_cache_mib is not None or device == "cpu":
        cache = (engine.kv_cache_mib or _CPU_CACHE_MIB) << 20
    else:
        cache = int((gpu_memory or 0) * engine.gpu_memory_share) - weights - adapters - working
    return EngineMemory(weights, adapters, working, cache, size * shape.parameters // parallel)
