"""Keys and values of a conversation, against what transformers keeps and what configurations say."""

import json
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from tests.harness.architectures import tiny_config, tiny_model
from tests.harness.learning import run_config
from trainer.capacity.cache import BATCHED_TOKENS, CacheShape
from trainer.capacity.machine import GIB, Machine
from trainer.capacity.plan import capacity_plan
from trainer.config import RunConfig
from trainer.update.memory import LayerShape, ModelShape, shape_of

H100 = 80 * GIB
LONG = 262_144


def shape(layers, heads=8, head=128):
    layer = LayerShape(hidden=2048, heads=16, key_heads=heads, head=head, intermediate=4096)
    return ModelShape(((),) * layers, (), layer, 1000)


def config(**fields):
    return SimpleNamespace(model_type="some", **fields)


@pytest.mark.parametrize(
    "name",
    [
        "llama",
        "qwen3",
        "gemma-2",
        "gemma-4",
        "qwen3-next",
        "qwen3.5-moe",
        "granite-4 hybrid",
        "lfm2",
        "falcon-h1",
    ],
)
def test_a_conversation_keeps_what_transformers_keeps(name, tmp_path):
    """Short enough for windows, and with the layers of each model that keep tokens."""
    folder = tiny_model(name, tmp_path)
    language = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = 3
    with torch.no_grad():
        cache = language(torch.zeros(1, tokens, dtype=torch.long), use_cache=True).past_key_values
    keeping = [layer for layer in cache.layers if getattr(layer, "keys", None) is not None]
    kept = sum(layer.keys.nbytes + layer.values.nbytes for layer in keeping)
    found = CacheShape.of(shape_of(folder, run_config().learner_settings), tiny_config(name))
    assert found.conversation_bytes(tokens, 4, 1) == kept


def test_only_layers_of_attention_keep_a_long_conversation():
    """Of 32 layers, 8 of which are full attention."""
    types = (["linear_attention"] * 3 + ["full_attention"]) * 8
    found = CacheShape.of(shape(32), config(layer_types=types))
    assert found.conversation_bytes(LONG, 2, 1) == 8 * GIB
    assert CacheShape.of(shape(32), config()).conversation_bytes(LONG, 2, 1) == 32 * GIB


def test_a_layer_with_a_window_keeps_it_and_a_batch():
    types = ["sliding_attention", "full_attention"]
    found = CacheShape.of(shape(2, heads=1, head=1), config(layer_types=types, sliding_window=4096))
    assert found.conversation_bytes(LONG, 1, 1) == 2 * (LONG + 4096 + BATCHED_TOKENS)
    assert found.conversation_bytes(1000, 1, 1) == 2 * 2 * 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"layer_types": ["sliding_attention"] * 2, "sliding_window": None},
        {"layer_types": ["linear_attention"]},
        {"layer_types": ["a new one"] * 2, "sliding_window": 16},
    ],
    ids=["no window", "other layers", "unknown type"],
)
def test_what_is_not_known_counts_as_full_attention(fields):
    found = CacheShape.of(shape(2), config(**fields))
    assert [layer.window for layer in found.layers] == [None, None]


@pytest.mark.parametrize("family", ["mistral", "phi3", "starcoder2"])
def test_a_window_without_types_of_layers_is_that_of_all_layers(family):
    """As in Mistral 7B v0.1 and Phi-3; vLLM keeps the window, and a batch, in each layer."""
    found = CacheShape.of(shape(2, heads=1, head=1), AutoConfig.for_model(family, sliding_window=2047))
    assert found.conversation_bytes(LONG, 1, 1) == 2 * 2 * (2047 + BATCHED_TOKENS)
    whole = CacheShape.of(shape(2, heads=1, head=1), AutoConfig.for_model(family, sliding_window=None))
    assert whole.conversation_bytes(LONG, 1, 1) == 2 * 2 * LONG


def test_layers_with_heads_of_their_own_and_layers_that_keep_nothing_are_counted_as_they_are():
    """Gemma 4: five layers with a window, one without; its heads differ, and the last layers share."""
    text = AutoConfig.for_model(
        "gemma4_text",
        num_hidden_layers=12,
        num_key_value_heads=4,
        head_dim=256,
        num_global_key_value_heads=2,
        global_head_dim=512,
        attention_k_eq_v=True,
        sliding_window=1024,
        num_kv_shared_layers=6,
    )
    found = CacheShape.of(shape(12), text)
    windows, whole = 5 * 2 * 4 * 256 * (1024 + BATCHED_TOKENS), 2 * 2 * 512 * LONG
    assert found.conversation_bytes(LONG, 1, 1) == windows + whole
    assert found.conversation_bytes(LONG, 1, 4) == windows // 4 + whole // 2


def test_latent_attention_keeps_one_compressed_vector_on_each_gpu():
    """DeepSeek-V3's 512 and 64 numbers, in the place of 2 x 128 x 64."""
    text = AutoConfig.for_model("deepseek_v3")
    found = CacheShape.of(shape(61, heads=128, head=64), text)
    assert found.conversation_bytes(1, 2, 1) == found.conversation_bytes(1, 2, 8) == 61 * 576 * 2


def test_heads_are_divided_over_the_gpus_of_an_engine_or_replicated():
    found = CacheShape.of(shape(1, heads=4, head=1), config())
    assert [found.conversation_bytes(1, 1, gpus) for gpus in (1, 2, 4, 8)] == [8, 4, 2, 2]


def test_a_hybrid_model_fits_where_its_layers_of_full_attention_do(tmp_path):
    """12 layers, 3 of which keep tokens: 0.75 GiB of keys and values in an engine with 1 GiB."""
    described = tiny_config("qwen3.5").to_dict() | {
        "num_hidden_layers": 12,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 3,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "max_position_embeddings": LONG,
    }
    (tmp_path / "config.json").write_text(json.dumps(described))
    run = RunConfig.model_validate(
        {
            "model": {"kind": "pretrained", "path": str(tmp_path)},
            "rollout": {"max_context_tokens": LONG},
            "learner": {"gpus": 1, "gradient_checkpointing": True},
            "engine": {"kv_cache_mib": 1024},
        }
    )
    plan = capacity_plan(run, Machine(gpus=2, gpu_memory=H100))
    assert not [each for each in plan.problems if "keys and values" in each]
    assert plan.cache_tokens == LONG * 1024 // 768
