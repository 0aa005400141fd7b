"""What one engine is started with, worked out from the run's configuration; vLLM is not imported here."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.errors import ConfigError
from trainer.weight_sync.choice import resolve_transport
from trainer.weight_sync.snapshots import snapshot_folder

from .arguments import check_arguments, known_arguments
from .gpu_shares import check_shares

if TYPE_CHECKING:
    from trainer.config.parts import EngineSettings
    from trainer.weight_sync.choice import Device


logger = logging.getLogger(__name__)

MIB = 1 << 20
CPU_CACHE_MIB = 256
CPU_BLOCK_TOKENS = 32
"""Tokens of a block of the prefix cache; vLLM's own 128 on a CPU never hit with short conversations."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
WORKER_EXTENSION = "trainer.weight_sync.vllm_worker.WeightSyncWorker"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """One engine."""

    model: Path
    device: Device
    dtype: str
    in_process: bool
    transfer: str | None
    """vLLM's name of the weight transfer; None when only adapters change."""
    logs: Path | None = None
    """Folder of the run's logs."""
    snapshots: Path | None = None
    """Folder with the manifest that an engine looks into when it starts."""
    context: int | None = None
    """Tokens of a sequence; the model's own when None."""
    tensor_parallel: int = 1
    max_sequences: int = 256
    cache_bytes: int | None = None
    gpu_memory_share: float = 0.85
    eager: bool = True
    threads: int = 1
    lora_rank: int | None = None
    seeded: bool = True
    """Requests draw with their own seeds."""
    sleep: bool = False
    """It leaves the GPU to the learner while that updates."""
    keep_cache: bool = False
    """A weight update leaves what requests under way have computed of their prefix."""
    further: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the run gives to vLLM as they are."""

    @property
    def workers(self) -> int:
        """Model workers."""
        return self.tensor_parallel

    def arguments(self) -> Mapping[str, Any]:
        """Of vLLM's ``AsyncEngineArgs`` and ``EngineArgs``."""
        said: dict[str, object] = {
            "model": str(self.model),
            "skip_tokenizer_init": True,
            "dtype": self.dtype,
            "max_num_seqs": self.max_sequences,
            "max_model_len": self.context,
            "kv_cache_memory_bytes": self.cache_bytes,
            "tensor_parallel_size": self.tensor_parallel,
            "distributed_executor_backend": "mp" if self.workers > 1 else "uni",
            "enable_prefix_caching": True,
            "enforce_eager": self.eager,
            # A model's generation settings must not bend the distribution that is trained on.
            "generation_config": "vllm",
            # Of the distribution that was sampled from, temperature applied: it is the one that is trained.
            "logprobs_mode": "processed_logprobs",
            "worker_extension_cls": WORKER_EXTENSION,
            "disable_log_stats": True,
        }
        if self.device == "cpu":
            said["block_size"] = CPU_BLOCK_TOKENS
            # A request with a seed whose prompt is split between two steps kills vLLM on a CPU: it winds the
            # generator's offset back, and generators of a CPU have none.
            said["enable_chunked_prefill"] = False
        else:
            said["gpu_memory_utilization"] = self.gpu_memory_share
        if self.sleep:
            said["enable_sleep_mode"] = True
        if self.transfer is not None:
            said["weight_transfer_config"] = {"backend": self.transfer}
        if self.lora_rank is not None:
            said |= {"enable_lora": True, "max_lora_rank": self.lora_rank, "max_loras": 2, "max_cpu_loras": 4}
        if not self.seeded:
            # Engines that begin alike must not draw alike: members of a group are spread over them.
            said["seed"] = int.from_bytes(os.urandom(4)) >> 1
        return said | dict(self.further)

    def environment(self) -> dict[str, str]:
        """Environment variables of the process; they have to be there before vLLM is imported."""
        said = {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0" if self.in_process else "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            # vLLM imports thousands of files: where their bytecode is not kept, each start takes 15 s longer.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        if self.device == "cpu":
            # Bound threads of several engines and learners would all sit on the first core.
            said |= {"OMP_NUM_THREADS": str(self.threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
            if self.threads > 1:
                said |= {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
        if self.transfer == "ipc":
            # Handles of GPU memory cross from the actor to its workers pickled, within one machine.
            said["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
        return said


def engine_options(settings: EngineSettings, model: Path, device: Device) -> EngineOptions:
    """Options of each engine of a run, for the model in a folder.

    Raises:
        ConfigError: the run asks for what engines on this device cannot do.
    """
    engine = settings.engine
    transport = resolve_transport(settings, device)
    if device == "cpu" and transport in ("nccl", "ipc"):
        raise ConfigError(f"sync.transport={transport} needs GPUs; use shared_file")
    if settings.learner.gpus == 0 and transport in ("nccl", "ipc"):
        raise ConfigError(f"sync.transport={transport} needs a learner on GPUs: set learner.gpus")
    check_shares(settings, device)
    _check_sampling(settings)
    if engine.args:
        check_arguments(engine.args, known_arguments())
    in_process = engine.in_process if engine.in_process is not None else device == "cpu"
    if in_process and engine.tensor_parallel > 1:
        raise ConfigError("engine.in_process steps one worker; engine.tensor_parallel needs in_process=false")
    dtype = engine.dtype if engine.dtype != "auto" else ("float32" if device == "cpu" else "bfloat16")
    cache_mib = engine.kv_cache_mib or (CPU_CACHE_MIB if device == "cpu" else None)
    lora = settings.learner.lora if transport == "adapter" else None
    return EngineOptions(
        model=model,
        device=device,
        dtype=dtype,
        in_process=in_process,
        transfer=None if transport == "adapter" else transport,
        logs=settings.folder / "logs",
        snapshots=snapshot_folder(settings.folder, settings.sync.folder),
        context=settings.max_context_tokens,
        tensor_parallel=engine.tensor_parallel,
        max_sequences=engine.max_sequences,
        cache_bytes=cache_mib * MIB if cache_mib else None,
        gpu_memory_share=engine.gpu_memory_share,
        eager=device == "cpu" if engine.eager is None else engine.eager,
        threads=engine.threads,
        lora_rank=_room_for(lora.rank) if lora else None,
        seeded=device == "cpu" if engine.seeded is None else engine.seeded,
        sleep=engine.sleep,
        keep_cache=engine.keep_cache,
        further=engine.args,
    )


def _check_sampling(settings: EngineSettings) -> None:
    """Words that are cut off have no probability for the engine and some for the learner."""
    sampling = settings.sampling
    cut = [name for name in ("top_p", "top_k") if getattr(sampling, name) not in (None, 1.0)]
    if settings.steps and cut:
        logger.warning(
            "rollout.sampling.%s cuts words off: engines record probabilities among those that are left, the "
            "learner computes them among all, and the mismatch correction takes the difference for stale "
            "weights; training wants all words",
            " and ".join(cut),
        )


def _room_for(rank: int) -> int:
    """The least rank that vLLM sets room aside for; adapters of lower ranks fit into it."""
    found = next((room for room in LORA_RANKS if room >= rank), None)
    if found is None:
        raise ConfigError(f"engines take adapters up to rank {LORA_RANKS[-1]}; learner.lora.rank is {rank}")
    return found
