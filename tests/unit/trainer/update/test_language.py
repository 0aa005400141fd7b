import numpy as np
import pytest
import torch
import torch.distributed as dist

from tests.harness.architectures import tiny_model
from tests.harness.learning import load_model, run_config, small_batch, small_model
from trainer.errors import ConfigError
from trainer.update.learner import Learner
from trainer.update.memory import rank_memory, shape_of
from trainer.update.mesh import Mesh

HALF = {"dtype": "bfloat16", "lora": {"rank": 4}}


@pytest.fixture
def folder(tmp_path):
    return small_model(tmp_path / "model", hidden=64)


def learned(folder, steps=2, **learner):
    config = run_config(learner=learner)
    trained = Learner(folder, config.learner_settings, "cpu")
    trained.begin_stage(config.learner.optimizer, 10)
    metrics = [trained.update(trained.annotate(small_batch(step))) for step in range(steps)]
    return trained, metrics


def test_what_adapters_leave_as_it_is_takes_half_the_memory(folder):
    core = load_model(folder, run_config(learner=HALF).learner_settings)
    for name, parameter in core.language.named_parameters():
        assert parameter.dtype == (torch.float32 if ".lora_" in name else torch.bfloat16), name
    held = sum(each.nbytes for each in core.parameters())
    config = run_config(learner=HALF)
    shape = shape_of(folder, config.learner_settings)
    assert rank_memory(shape, config.learner, Mesh(), half=True).weights == held
    frozen = sum(weight.elements for weight in shape.weights if not weight.trained)
    trained = sum(weight.elements for weight in shape.weights if weight.trained)
    assert held == 2 * frozen + 4 * trained


def test_it_is_what_passes_are_computed_in_unless_it_is_said(folder):
    exact = load_model(folder, run_config(learner={"lora": {"rank": 4}}).learner_settings)
    said = load_model(
        folder, run_config(learner={**HALF, "lora": {"rank": 4, "base_dtype": "float32"}}).learner_settings
    )
    for core in (exact, said):
        assert {parameter.dtype for parameter in core.parameters()} == {torch.float32}
    with pytest.raises(ConfigError, match=r"set learner\.dtype=bfloat16 as well"):
        load_model(folder, run_config(learner={"lora": {"base_dtype": "bfloat16"}}).learner_settings)


def test_weights_that_a_model_needs_in_float32_stay_so(tmp_path):
    folder = tiny_model("deepseek-v3", tmp_path / "model")
    lora = {"targets": ["q_b_proj", "o_proj"]}
    language = load_model(folder, run_config(learner={**HALF, "lora": lora}).learner_settings).language
    exact = {name for name, tensor in language.state_dict().items() if tensor.dtype == torch.float32}
    assert any("e_score_correction_bias" in name for name in exact)
    assert not any(name.endswith("o_proj.base_layer.weight") for name in exact)


def test_a_base_in_16_bits_learns_what_one_in_32_does(folder):
    lora = {"rank": 4, "base_dtype": "float32"}
    one, ones = learned(folder, **HALF)
    other, others = learned(folder, **{**HALF, "lora": lora})
    for metrics, expected in zip(ones, others, strict=True):
        assert metrics["loss/policy"] == pytest.approx(expected["loss/policy"], abs=0.02)
        assert metrics["policy/grad_norm"] == pytest.approx(expected["policy/grad_norm"], rel=0.15)
    probes = [each.probe([(1, 2, 3, 4, 5, 6, 7, 8)])[0] for each in (one, other)]
    assert np.abs(probes[0] - probes[1]).mean() < 0.1


def test_merging_adds_an_adapter_without_rounding_it_away(folder):
    trained, _ = learned(folder, **HALF)
    layer = trained.model.core.language.model.layers[0].mlp.up_proj
    delta = layer.lora_B["default"].weight @ layer.lora_A["default"].weight * layer.scaling["default"]
    found = dict(trained.named_weights())["model.layers.0.mlp.up_proj.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, layer.base_layer.weight.float() + delta)


def test_shards_of_both_precisions_learn_together(folder, tmp_path):
    alone, metrics = learned(folder, **HALF)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        sharded, others = learned(folder, **HALF, sharding="fsdp2")
        for one, other in zip(metrics, others, strict=True):
            assert other["policy/grad_norm"] == pytest.approx(one["policy/grad_norm"], rel=0.15)
        probes = [each.probe([(1, 2, 3, 4)])[0] for each in (alone, sharded)]
    finally:
        dist.destroy_process_group()
    assert np.abs(probes[0] - probes[1]).max() < 0.1


def test_adapters_of_fused_experts_are_refused_in_a_sentence(tmp_path):
    folder = tiny_model("qwen3-moe", tmp_path / "model")
    with pytest.raises(ConfigError, match=r"would adapt the experts of a model of type qwen3_moe.*q_proj"):
        load_model(folder, run_config(learner={"lora": {}}).learner_settings)
    core = load_model(
        folder, run_config(learner={"lora": {"targets": ["q_proj", "o_proj"]}}).learner_settings
    )
    assert sum(".lora_A" in name for name, _ in core.named_parameters()) == 4


def test_layers_that_nobody_has_are_told(folder):
    with pytest.raises(ConfigError, match=r"learner\.lora: .*no_such_layer"):
        load_model(folder, run_config(learner={"lora": {"targets": ["no_such_layer"]}}).learner_settings)


@pytest.mark.parametrize("tied", [True, False])
def test_an_adapted_output_layer_must_have_a_weight_of_its_own(tied, tmp_path):
    folder = small_model(tmp_path / "model", tied=tied)
    settings = run_config(learner={"lora": {"targets": ["lm_head"]}}).learner_settings
    if tied:
        with pytest.raises(ConfigError, match=r"adapt lm_head, which shares its weight with the input"):
            load_model(folder, settings)
    else:
        assert any(".lora_A" in name for name, _ in load_model(folder, settings).named_parameters())


@pytest.mark.parametrize("tied", [True, False])
def test_an_embedding_is_not_adapted(tied, tmp_path):
    folder = small_model(tmp_path / "model", tied=tied)
    settings = run_config(learner={"lora": {"targets": ["embed_tokens", "q_proj"]}}).learner_settings
    with pytest.raises(ConfigError, match=r"adapt model\.embed_tokens, a layer of type Embedding"):
        load_model(folder, settings)


@pytest.mark.parametrize("targets", ["all-linear", ["c_proj"]])
def test_adapters_of_gpt_2_are_merged_into_its_transposed_weights(targets, tmp_path):
    folder = tiny_model("gpt-2", tmp_path / "model")
    sequence = (5, 6, 7, 8, 9)
    lora = {"rank": 4, "targets": targets}
    adapted = Learner(folder, run_config(learner={"lora": lora}).learner_settings, "cpu")
    with torch.no_grad():
        for name, parameter in adapted.model.core.named_parameters():
            if ".lora_B" in name:
                parameter.add_(torch.linspace(-0.1, 0.1, parameter.numel()).view_as(parameter))
    adapted.export(tmp_path / "merged")
    merged = Learner(tmp_path / "merged", run_config().learner_settings, "cpu")
    assert merged.probe([sequence])[0] == pytest.approx(adapted.probe([sequence])[0], abs=1e-4)
