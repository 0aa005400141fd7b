"""Small models, and batches to learn from, made on the spot."""

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from trainer.config import RunConfig
from trainer.types import Batch, Objective, Sample
from trainer.update.loading import fill
from trainer.update.model import make_model

WORDS = 64

_SHAPES = {"qwen2": Qwen2Config, "llama": LlamaConfig}


def small_model(folder, family="qwen2", tied=True, hidden=32, layers=2, words=WORDS, context=256):
    """A random model in Hugging Face's format; the same each time."""
    config = _SHAPES[family](
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=3 * hidden,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def small_batch(step=0, rows=7, words=WORDS, shortest=6, longest=24, objective=Objective.POLICY, seed=0):
    """Rows of several lengths with two turns each, with advantages and returns."""
    rng = np.random.default_rng((seed, step))
    samples = []
    for index in range(rows):
        length = int(rng.integers(shortest, longest + 1))
        mask = np.zeros(length, dtype=bool)
        mask[2:4] = True
        mask[length - 2 :] = True
        samples.append(
            Sample(
                id=f"{index}.0",
                trajectory_id=f"{index}.0",
                group=index // 2,
                token_ids_T=rng.integers(0, words, length).astype(np.int32),
                mask_T=mask,
                logprobs_T=np.where(mask, rng.normal(-4.0, 0.3, length), 0.0).astype(np.float32),
                rewards_T=np.zeros(length, dtype=np.float32),
                turns_T=np.where(mask, 0, -1).astype(np.int32),
                versions_T=np.where(mask, 0, -1).astype(np.int32),
                advantages_T=np.where(mask, rng.normal(0.0, 1.0), 0.0).astype(np.float32),
                returns_T=np.where(mask, rng.normal(0.0, 1.0, length), 0.0).astype(np.float32),
            )
        )
    return Batch(step, objective, tuple(samples))


def load_model(folder, settings):
    """Return the model of a folder with its weights, unsharded, on the CPU."""
    cpu = torch.device("cpu")
    core = make_model(folder, settings, cpu)
    fill(core, cpu, cpu)
    return core


def run_config(**branches):
    """A run with small micro-batches, so that there are several."""
    learner = {"micro_batch_tokens": 48, "optimizer": {"learning_rate": 1e-2}, **branches.pop("learner", {})}
    return RunConfig.model_validate({"learner": learner, **branches})
