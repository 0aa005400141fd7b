"""Measure how fast one GPU learns, and in how much memory: one table, by a few settings of the learner.

    python -m tests.gpu.table --model Qwen/Qwen3-4B-Instruct-2507 -o tests/benchmarks/results/gpu.json
    python -m tests.gpu.table --device cpu --tiny

MODEL is a folder, or a name that ``trainer/capacity/hub_models.json`` knows. Of a name, and of a folder
without weights, the weights are random, so nothing is downloaded: speed and memory do not depend on them.
Each row of the table is a learner of its own, with batches of random tokens. Memory is the most that torch
had allocated during updates, beside what ``trainer.update.memory`` computes; CPUs have no such counter.
Moments in 8 bits need torchao.

With ``--engine`` a vLLM engine on the same device samples, and takes each learner's weights by
``--transport``: ``adapter`` in the rows with LoRA only, and a file in the others; ``nccl`` needs two GPUs. On
a GPU that they share, the engine's memory is freed and restored, too (``engine.sleep``).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from trainer.capacity.described import described_model
from trainer.config import RunConfig, TinyModel
from trainer.config.model import PretrainedModel
from trainer.engines.generation import GenerationRequest, Sampling
from trainer.errors import ConfigError
from trainer.models.folders import model_folder
from trainer.types import Batch, EpisodeKey, Objective, Sample, TaskRef
from trainer.update.language import computes_in_half
from trainer.update.learner import Learner
from trainer.update.memory import rank_memory, shape_of
from trainer.update.mesh import Mesh
from trainer.weight_sync.snapshots import clear_snapshots, snapshot_folder
from trainer.weight_sync.sync import make_weight_sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.harness.local_engine import LocalEngine

_LORA: dict[str, object] = {"rank": 32}
_PACKED: dict[str, object] = {"layout": "packed"}
_AGAIN: dict[str, object] = {"gradient_checkpointing": True}
SETTINGS: dict[str, dict[str, object]] = {
    "all weights, padded": {},
    "all weights, packed": _PACKED,
    "all weights, packed, checkpointing": {**_PACKED, **_AGAIN},
    "all weights, packed, checkpointing, moments in 8 bits": {
        **_PACKED,
        **_AGAIN,
        "optimizer": {"moments": "8bit"},
    },
    "all weights, packed, checkpointing, moments in host memory": {
        **_PACKED,
        **_AGAIN,
        "offload": "optimizer",
    },
    "LoRA, padded": {"lora": _LORA},
    "LoRA, packed": {**_PACKED, "lora": _LORA},
    "LoRA, packed, checkpointing": {**_PACKED, **_AGAIN, "lora": _LORA},
}
_LEAST_WORDS = 64
"""Tokens that every model has."""
_FIRST = 1
"""Updates that warm up, and are not counted."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the batches."""

    rows: int
    longest: int
    """Tokens of a row; the shortest has half of them, and a quarter of each is a prompt."""
    micro_batch_tokens: int
    updates: int


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print and keep. Ends with 1 if no setting could be measured."""
    options = _options().parse_args(words)
    sizes = (
        Sizes(rows=8, longest=64, micro_batch_tokens=256, updates=options.updates)
        if options.tiny
        else Sizes(options.rows, options.longest, options.micro_batch_tokens, options.updates)
    )
    device = torch.device(options.device)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = _model(options, Path(name))
        for setting in options.settings:
            learner = SETTINGS[setting]
            config = _run(Path(name), sizes, learner, options.transport, gpu=device.type == "cuda")
            row = {"setting": setting, **_measured(config, folder, device, sizes, engine=options.engine)}
            sys.stderr.write(json.dumps(row) + "\n")
            rows.append(row)
    model = "tiny" if options.tiny else options.model
    found = {"machine": _machine(device), "model": model, "sizes": asdict(sizes), "rows": rows}
    table = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(table)
    if options.output is not None:
        options.output.write_text(table, encoding="utf-8")
    return int(all("error" in row for row in rows))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B-Instruct")
    parser.add_argument("--tiny", action="store_true", help="a model of 0.9M weights, and small batches")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--micro-batch-tokens", type=int, default=16384)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument(
        "--engine", action="store_true", help="sample and sync weights with a vLLM engine, too"
    )
    parser.add_argument(
        "--transport", choices=("shared_file", "ipc", "nccl", "adapter"), default="shared_file"
    )
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="rows, all by default"
    )
    parser.add_argument("-o", "--output", type=Path)
    return parser


def _model(options: argparse.Namespace, spare: Path) -> Path:
    """The folder of the model; one that is described only gets random weights."""
    if options.tiny:
        return model_folder(TinyModel(), spare / "models")
    with described_model(PretrainedModel(path=options.model)) as described:
        if list(described.glob("*.safetensors")):
            return described
        made = spare / "model"
        torch.manual_seed(0)
        config = AutoConfig.from_pretrained(described, local_files_only=True)
        with torch.device(options.device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        model.save_pretrained(made)
        return made


def _run(root: Path, sizes: Sizes, learner: dict[str, object], transport: str, *, gpu: bool) -> RunConfig:
    share = 1.0 if transport == "nccl" else 0.5
    here = {"micro_batch_tokens": sizes.micro_batch_tokens, "gpus": share if gpu else 0, **learner}
    shared = {"gpus": share, "gpu_memory_share": 0.2, "sleep": share < 1}
    if transport == "adapter" and "lora" not in learner:
        transport = "shared_file"
    return RunConfig.model_validate(
        {
            "name": "gpu-table",
            "root": root,
            "learner": here,
            "engine": shared if gpu else {"kv_cache_mib": 64},
            "rollout": {"max_context_tokens": max(256, sizes.longest)},
            "sync": {"transport": transport, "check": False},
        }
    )


def _measured(
    config: RunConfig, folder: Path, device: torch.device, sizes: Sizes, *, engine: bool
) -> dict[str, object]:
    """One row: figures, or why there are none."""
    try:
        return _figures(config, folder, device, sizes, engine=engine)
    except (torch.OutOfMemoryError, ConfigError) as error:
        return {"error": str(error).partition("\n")[0]}
    finally:
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _figures(
    config: RunConfig, folder: Path, device: torch.device, sizes: Sizes, *, engine: bool
) -> dict[str, object]:
    learner = Learner(folder, config.learner_settings, device)
    learner.begin_stage(config.learner.optimizer, _FIRST + sizes.updates)
    words = int(AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config().vocab_size)
    found = []
    for step in range(_FIRST + sizes.updates):
        if step == _FIRST and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        batch = random_batch(step, sizes, words)
        found.append(learner.update(learner.annotate(batch)))
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    half = computes_in_half(config.learner, device)
    expected = rank_memory(shape_of(folder, config.learner_settings), config.learner, Mesh(), half=half)
    counted = found[_FIRST:]
    return {
        "tokens_per_s": statistics.median(each["throughput/update_tokens_per_s"] for each in counted),
        "mfu": statistics.median(each["throughput/mfu"] for each in counted),
        "seconds": [each["time/update"] for each in counted],
        "peak_bytes": peak,
        "computed_bytes": expected.total,
        "computed": asdict(expected),
        **(_engine_figures(config, folder, learner, device.type, sizes) if engine else {}),
    }


def _engine_figures(
    config: RunConfig, folder: Path, learner: Learner, device: str, sizes: Sizes
) -> dict[str, object]:
    """The engine's part of a row. One that fails costs no figures of the learner."""
    try:
        return _beside_an_engine(config, folder, learner, device, sizes)
    except Exception as error:  # noqa: BLE001 - vLLM raises errors of any kind
        return {"engine_error": f"{type(error).__name__}: {error}".partition("\n")[0]}


def random_batch(step: int, sizes: Sizes, words: int) -> Batch:
    """Rows of half to all of the longest, with advantages, the same for the same step."""
    rng = np.random.default_rng(step)
    samples = []
    for index in range(sizes.rows):
        length = int(rng.integers(sizes.longest // 2, sizes.longest + 1))
        mask = np.arange(length) >= length // 4
        samples.append(
            Sample(
                id=f"{index}.0",
                trajectory_id=f"{index}.0",
                group=index // 8,
                token_ids_T=rng.integers(0, words, length).astype(np.int32),
                mask_T=mask,
                logprobs_T=np.where(mask, -np.log(words), 0.0).astype(np.float32),
                rewards_T=np.zeros(length, dtype=np.float32),
                turns_T=np.where(mask, 0, -1).astype(np.int32),
                versions_T=np.where(mask, 0, -1).astype(np.int32),
                advantages_T=np.where(mask, rng.normal(), 0.0).astype(np.float32),
            )
        )
    return Batch(step, Objective.POLICY, tuple(samples))


def _beside_an_engine(
    config: RunConfig, folder: Path, learner: Learner, device: str, sizes: Sizes
) -> dict[str, object]:
    """Seconds of three weight syncs to an engine, its tokens a second, and the seconds of a sleep."""
    from tests.harness.local_engine import LocalEngine

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()  # of what updates have left; the engine takes its share of the GPU
    with ExitStack() as stack:
        stack.callback(clear_snapshots, snapshot_folder(config.folder, config.sync.folder))
        engine = stack.enter_context(closing(LocalEngine(config, folder, device=device)))
        weight_sync = stack.enter_context(
            closing(make_weight_sync(config.sync_settings, [engine], learner, 0))
        )
        # The first makes connections and the file's pages, too.
        reports = [weight_sync.report(version) for version in range(1, 4)]
        return {
            "transport": config.sync.transport,
            "sync_seconds": [report.seconds for report in reports],
            "paused_seconds": [report.paused_s for report in reports],
            "engine_tokens_per_s": _sampled(engine, sizes),
            "sleep_seconds": _slept(engine) if config.engine.sleep else None,
        }


def _sampled(engine: LocalEngine, sizes: Sizes) -> float:
    """Tokens a second of one turn of each row, all at a time."""
    length = sizes.longest // 2
    rng = np.random.default_rng(0)
    began = time.perf_counter()
    turns = [
        engine.generate(
            GenerationRequest(
                EpisodeKey(f"{index}.0", TaskRef("table", "rows", str(index)), 0),
                tuple(int(token) for token in rng.integers(3, _LEAST_WORDS, length)),
                length,
                Sampling(),
                seed=index,
            )
        )
        for index in range(sizes.rows)
    ]
    tokens = sum(len(turn.result().token_ids) for turn in turns)
    return tokens / (time.perf_counter() - began)


def _slept(engine: LocalEngine) -> dict[str, float]:
    """Seconds until the engine has freed its memory, and until each part is there again."""
    found = {}
    for name, act in (
        ("sleep", lambda: engine.enter_sleep("keep")),
        ("weights", lambda: engine.wake_up("weights")),
        ("kv_cache", lambda: engine.wake_up("kv_cache")),
    ):
        began = time.perf_counter()
        act().result()
        found[name] = time.perf_counter() - began
    return found


def _machine(device: torch.device) -> dict[str, object]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {
        "device": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
