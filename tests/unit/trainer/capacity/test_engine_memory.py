"""Arguments of vLLM that change what an engine needs."""

import pytest

from trainer.capacity.machine import GIB, Machine
from trainer.capacity.plan import capacity_plan
from trainer.config import RunConfig


def planned(context=8192, **arguments):
    """Qwen3-8B on an engine of 24 GiB."""
    config = RunConfig.model_validate(
        {
            "model": {"kind": "pretrained", "path": "Qwen/Qwen3-8B"},
            "rollout": {"max_context_tokens": context},
            "learner": {"gpus": 1, "lora": {"rank": 8}, "gradient_checkpointing": True},
            "engine": {"gpus": 1, "eager": False, "args": arguments},
        }
    )
    return capacity_plan(config, Machine(gpus=2, gpu_memory=24 * GIB))


def engine_of(plan):
    return next(group for group in plan.groups if group.kind == "engine").parts


def test_a_cache_in_8_bits_holds_twice_the_tokens():
    plain, packed = planned(), planned(kv_cache_dtype="fp8")
    assert packed.cache_tokens == pytest.approx(2 * plain.cache_tokens, abs=1)
    assert engine_of(packed) == engine_of(plain)


def test_layers_in_8_bits_have_half_the_bytes_and_a_snapshot_has_all():
    plain, packed = planned(), planned(quantization="fp8")
    embeddings = 2 * 2 * 151_936 * 4096
    layers = engine_of(plain)["engine: weights"] - embeddings
    assert engine_of(packed)["engine: weights"] == pytest.approx(embeddings + layers / 2, rel=0.01)
    assert packed.host == plain.host
    assert packed.storage == plain.storage


def test_larger_steps_take_working_memory_from_the_cache():
    plain, larger = planned(), planned(max_num_batched_tokens=65_536)
    grown = engine_of(larger)["engine: working memory"] - engine_of(plain)["engine: working memory"]
    assert grown == 7 * 8192 * 2 * (4 * 4096 + 2 * 12_288)
    assert engine_of(larger).get("engine: keys and values", 0) < engine_of(plain)["engine: keys and values"]


def test_a_conversation_that_only_a_cache_in_8_bits_holds_is_no_problem():
    def refused(plan):
        return [each for each in plan.problems if "one conversation" in each]

    assert refused(planned(24_000))
    assert not refused(planned(24_000, kv_cache_dtype="fp8"))


@pytest.mark.parametrize(
    "arguments",
    [{"quantization": "bitsandbytes"}, {"cpu_offload_gb": 8}, {"kv_cache_dtype": "nvfp4"}],
    ids=["quantization", "offload", "cache"],
)
def test_memory_that_an_argument_changes_in_an_unknown_way_is_a_warning(arguments):
    plan = planned(24_000, **arguments)
    assert not any("one conversation" in each for each in plan.problems)
    (name,) = arguments
    assert any(f"cannot compute how engine.args.{name} changes" in each for each in plan.warnings)
