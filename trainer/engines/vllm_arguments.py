"""Check the names in ``engine.args`` against the source of vLLM, which gets them unchanged."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

OWNED: Mapping[str, str] = {
    "model": "model.path",
    "tokenizer": "model.path",
    "skip_tokenizer_init": "nothing: engines take and give token ids",
    "seed": "engine.seeded",
    "dtype": "engine.dtype",
    "max_num_seqs": "engine.max_sequences",
    "max_model_len": "rollout.max_context_tokens",
    "kv_cache_memory_bytes": "engine.kv_cache_mib",
    "gpu_memory_utilization": "engine.gpu_memory_share",
    "tensor_parallel_size": "engine.tensor_parallel",
    "pipeline_parallel_size": "engine.tensor_parallel: Ray reserves so many GPUs",
    "prefill_context_parallel_size": "engine.tensor_parallel: Ray reserves so many GPUs",
    "nnodes": "engine.count, since an engine lies on one machine",
    "distributed_executor_backend": "engine.tensor_parallel",
    "enforce_eager": "engine.eager",
    "enable_sleep_mode": "engine.sleep",
    "generation_config": "rollout.sampling",
    "logprobs_mode": "nothing: training needs those of the distribution that was sampled from",
    "worker_extension_cls": "nothing: weights come by it",
    "weight_transfer_config": "sync.transport",
    "enable_lora": "learner.lora",
    "max_lora_rank": "learner.lora.rank",
}
"""Arguments of vLLM that the trainer sets, and the setting to use in place of each."""

OWNED_FAMILIES: Mapping[str, str] = {"data_parallel_": "engine.count"}
"""Prefixes of such arguments."""


def argument_problems(given: Iterable[str]) -> Iterator[str]:
    """Yield one sentence for each argument that the trainer sets or the installed vLLM does not have."""
    names = tuple(given)
    known = _known_arguments() if names else frozenset()
    for name in names:
        if (instead := _owned(name)) is not None:
            yield f"engine.args.{name} is set by the trainer: use {instead}"
        elif known and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"vLLM has no engine argument {name} (engine.args){meant}"


def _owned(name: str) -> str | None:
    families = (setting for prefix, setting in OWNED_FAMILIES.items() if name.startswith(prefix))
    return OWNED.get(name) or next(families, None)


def _known_arguments() -> frozenset[str]:
    """Return the argument names of the installed vLLM, read from its source; empty without vLLM."""
    found = find_spec("vllm")
    if found is None or found.origin is None:
        return frozenset()
    source = Path(found.origin).parent / "engine" / "arg_utils.py"
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "EngineArgs":
            fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            return frozenset(field.id for field in fields if isinstance(field, ast.Name))
    return frozenset()
