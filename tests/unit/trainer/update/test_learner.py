import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from tests.harness.learning import run_config, small_batch, small_model
from trainer.config import OptimizerConfig
from trainer.errors import CheckpointError
from trainer.types import Objective
from trainer.update.learner import Learner

PPO = {"advantage": {"kind": "gae"}, "kl": {"place": "loss", "target": 0.1}, "entropy": 0.01}
# An update that is nearly linear in the gradient, so that rounding stays rounding.
STEADY = {"learning_rate": 1e-2, "epsilon": 1.0}


@pytest.fixture
def folder(tmp_path):
    return small_model(tmp_path / "model")


def learner_on(folder, steps=10, **branches):
    config = run_config(**branches)
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, steps)
    return learner


def steps_of(learner, *batches):
    return [learner.update(learner.annotate(batch)) for batch in batches]


def weights_of(learner):
    return {name: weight.clone() for name, weight in learner.named_weights()}


def assert_near(one, other, tolerance=2e-7):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=tolerance, rtol=0, msg=name)


def by_transformers(model, sequence):
    ids = torch.tensor(sequence)[None]
    with torch.no_grad():
        logp = model(input_ids=ids).logits.log_softmax(-1)
    return [0.0, *logp[0, :-1].gather(-1, ids[0, 1:, None])[:, 0].tolist()]


@pytest.mark.parametrize("algorithm", [{}, PPO], ids=["grpo", "ppo"])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
@pytest.mark.parametrize(
    "way", [{"layout": "packed"}, {"micro_batch_tokens": 4096}, {"gradient_checkpointing": True}]
)
def test_how_rows_are_packed_changes_nothing_but_rounding(folder, algorithm, aggregation, way):
    algorithm = {**algorithm, "aggregation": aggregation}
    results = []
    for learner in ({}, way):
        settings = {"optimizer": STEADY, "minibatches": 2, **learner}
        made = learner_on(folder, learner=settings, algorithm=algorithm)
        results.append((steps_of(made, small_batch(0), small_batch(1)), weights_of(made)))
    (metrics, weights), (others, other_weights) = results
    assert_near(weights, other_weights)
    for one, other in zip(metrics, others, strict=True):
        one, other = (
            {k: v for k, v in each.items() if not k.startswith(("time/", "throughput/"))}
            for each in (one, other)
        )
        assert one == pytest.approx(other, abs=2e-5)


def test_an_update_makes_good_actions_likelier_and_bad_ones_less(folder):
    learner = learner_on(folder, learner={"optimizer": {"learning_rate": 3e-3}})
    batch = learner.annotate(small_batch(rows=6))
    before = learner.probe([tuple(sample.token_ids_T.tolist()) for sample in batch.samples])
    learner.update(batch)
    after = learner.probe([tuple(sample.token_ids_T.tolist()) for sample in batch.samples])
    for sample, one, other in zip(batch.samples, before, after, strict=True):
        advantage = sample.advantages_T[sample.mask_T][0]
        assert (other - one)[sample.mask_T].sum() * advantage > 0


def fine_tuning_batch():
    batch = small_batch(objective=Objective.SFT)
    ones = [
        replace(sample, advantages_T=sample.mask_T.astype(np.float32), returns_T=None)
        for sample in batch.samples
    ]
    return replace(batch, samples=tuple(ones))


def test_fine_tuning_lowers_its_loss(folder):
    learner = learner_on(folder, algorithm=PPO)
    batch = fine_tuning_batch()
    losses = [metrics["loss/sft"] for metrics in steps_of(learner, *[batch] * 5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] - 1.0


@pytest.mark.parametrize("weights", [(1.0,), (0.5,), (0.0, 3.0, 0.25)], ids=str)
def test_weights_of_fine_tuning_are_relative_to_all_data_and_not_to_their_batch(folder, weights):
    learner, batch = learner_on(folder), fine_tuning_batch()
    samples = [
        replace(sample, weight=weights[row % len(weights)]) for row, sample in enumerate(batch.samples)
    ]
    logprobs = learner.probe([tuple(sample.token_ids_T.tolist()) for sample in samples])
    (metrics,) = steps_of(learner, replace(batch, samples=tuple(samples)))
    loss = tokens = 0.0
    for sample, row in zip(samples, logprobs, strict=True):
        if sample.weight:
            loss -= sample.weight * float(row[sample.mask_T].sum())
            tokens += int(sample.mask_T.sum())
    assert metrics["loss/sft"] == pytest.approx(loss / tokens, rel=1e-5)


def test_a_batch_of_poor_episodes_has_a_small_gradient(folder):
    norms = []
    for weight in (1.0, 0.125):
        batch = fine_tuning_batch()
        poor = tuple(replace(sample, weight=weight) for sample in batch.samples)
        (metrics,) = steps_of(learner_on(folder), replace(batch, samples=poor))
        norms.append(metrics["policy/grad_norm"])
    assert norms[1] == pytest.approx(norms[0] / 8, rel=1e-5)


def test_one_update_a_batch_needs_no_pass_of_its_own_for_what_was_before_it(folder):
    once, twice = (
        learner_on(
            folder, learner={"optimizer": STEADY}, algorithm={"kl": {"place": place, "coefficient": 0.0}}
        )
        for place in ("loss", "reward")
    )
    late, early = once.annotate(small_batch()), twice.annotate(small_batch())
    assert all(sample.old_logprobs_T is None for sample in late.samples)
    assert all(sample.old_logprobs_T is not None for sample in early.samples)
    metrics, others = once.update(late), twice.update(early)
    for name in ("loss/policy", "mismatch/kl", "mismatch/max", "mismatch/share", "policy/grad_norm"):
        assert metrics[name] == pytest.approx(others[name], rel=1e-4), name
    assert_near(weights_of(once), weights_of(twice))


@pytest.mark.parametrize("minibatches", [1, 2])
def test_what_an_update_saw_of_each_trained_token_can_be_recorded(folder, minibatches):
    model = AutoModelForCausalLM.from_pretrained(folder)
    learner = learner_on(folder, learner={"minibatches": minibatches, "optimizer": {"learning_rate": 1e-7}})
    batch = small_batch()
    batch = replace(batch, samples=(replace(batch.samples[0], weight=0.0), *batch.samples[1:]))
    learner.update(learner.annotate(batch))
    untrained, first, *_ = learner.add_token_statistics(batch).samples
    assert (untrained.entropy_T, untrained.old_logprobs_T) == (None, None)
    with torch.no_grad():
        logp = model(torch.from_numpy(first.token_ids_T).long()[None]).logits[0, :-1].log_softmax(-1)
    entropies = np.array([0.0, *(-(logp.exp() * logp).sum(-1)).tolist()])
    known = first.mask_T
    np.testing.assert_allclose(
        first.old_logprobs_T[known],
        np.array(by_transformers(model, first.token_ids_T.tolist()))[known],
        atol=1e-4,
    )
    np.testing.assert_allclose(first.entropy_T[known], entropies[known], atol=1e-4)
    assert not first.entropy_T[~known].any()
    np.testing.assert_array_equal(first.logprobs_T[known], batch.samples[1].logprobs_T[known])


def test_annotation_is_zero_where_nothing_was_sampled(folder):
    learner = learner_on(folder, algorithm=PPO, learner={"minibatches": 2})
    for sample in learner.annotate(small_batch()).samples:
        for array in (sample.old_logprobs_T, sample.ref_logprobs_T, sample.values_T):
            assert array.shape == sample.mask_T.shape
            assert not array[~sample.mask_T].any()
        assert (sample.old_logprobs_T[sample.mask_T] < 0).all()


@pytest.mark.parametrize("lora", [None, {"rank": 4}], ids=["full", "lora"])
def test_the_reference_is_the_model_as_its_stage_began(folder, lora):
    learner = learner_on(folder, algorithm=PPO, learner={"lora": lora, "minibatches": 2})
    batch = small_batch()
    first = learner.annotate(batch)
    for sample in first.samples:
        assert np.array_equal(sample.ref_logprobs_T, sample.old_logprobs_T)
    learner.update(first)
    present = weights_of(learner)
    second = learner.annotate(batch)
    assert_near(weights_of(learner), present, tolerance=0.0)
    for before, after in zip(first.samples, second.samples, strict=True):
        assert np.array_equal(before.ref_logprobs_T, after.ref_logprobs_T)
        assert not np.array_equal(after.old_logprobs_T, after.ref_logprobs_T)
    learner.begin_stage(OptimizerConfig(), 5)
    third = learner.annotate(batch)
    for before, after in zip(second.samples, third.samples, strict=True):
        assert np.array_equal(before.old_logprobs_T, after.ref_logprobs_T)


def test_the_kl_coefficient_follows_its_target(folder):
    tight = {"kl": {"place": "loss", "target": 1e-6, "horizon": 10}}
    learner = learner_on(folder, algorithm=tight)
    batch = small_batch()
    good = [replace(each, advantages_T=each.mask_T.astype(np.float32)) for each in batch.samples]
    first, second = steps_of(learner, *[replace(batch, samples=tuple(good))] * 2)
    # The first step meets the reference itself, the second one a model that likes these tokens better.
    assert first["reference/kl_sequence"] == 0.0 < second["reference/kl_sequence"]
    assert first["policy/kl_coefficient"] < 0.05
    assert second["policy/kl_coefficient"] > first["policy/kl_coefficient"]
    assert learner.kl_coefficient == second["policy/kl_coefficient"]


def test_minibatches_are_shuffled_by_seed_and_step(folder):
    runs = []
    for seed, step in ((0, 3), (0, 3), (1, 3), (0, 4)):
        learner = learner_on(folder, seed=seed, learner={"minibatches": 3, "epochs": 2})
        steps_of(learner, replace(small_batch(), step=step))
        runs.append(weights_of(learner)["lm_head.weight"])
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert not torch.equal(runs[0], runs[3])


def test_rows_without_weight_change_nothing(folder):
    batch = small_batch()
    extra = replace(small_batch(seed=5).samples[0], weight=0.0)
    one, other = learner_on(folder), learner_on(folder)
    steps_of(one, batch)
    steps_of(other, replace(batch, samples=(*batch.samples, extra)))
    assert_near(weights_of(one), weights_of(other), tolerance=0.0)


def test_a_batch_with_nothing_to_train_on_leaves_the_model_as_it_is(folder):
    learner = learner_on(folder)
    before = weights_of(learner)
    batch = small_batch()
    batch = replace(batch, samples=tuple(replace(sample, weight=0.0) for sample in batch.samples))
    (metrics,) = steps_of(learner, batch)
    assert_near(weights_of(learner), before, tolerance=0.0)
    assert metrics["tokens/trained"] == 0.0
    assert metrics["policy/updates"] == 0.0


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_probe_tells_what_transformers_would(folder, layout):
    learner = learner_on(folder, learner={"layout": layout})
    sequences = [(5, 9, 3, 60), (7,), tuple(range(20))]
    model = AutoModelForCausalLM.from_pretrained(folder)
    for got, sequence in zip(learner.probe(sequences), sequences, strict=True):
        assert got.tolist() == pytest.approx(by_transformers(model, sequence), abs=2e-6)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_weights_go_under_hugging_faces_names_with_the_output_layer_among_them(tmp_path, tied):
    folder = small_model(tmp_path / "model", tied=tied)
    learner = learner_on(folder)
    steps_of(learner, small_batch())
    weights = weights_of(learner)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert weights.keys() == model.state_dict().keys()
    assert torch.equal(weights["lm_head.weight"], weights["model.embed_tokens.weight"]) == tied
    model.load_state_dict(weights)
    sequence = tuple(range(12))
    assert learner.probe([sequence])[0].tolist() == pytest.approx(by_transformers(model, sequence), abs=2e-6)


def test_lora_is_merged_into_what_is_synced_and_written_apart_as_an_adapter(folder, tmp_path):
    learner = learner_on(folder, learner={"lora": {"rank": 4, "alpha": 12.0}})
    steps_of(learner, small_batch(0), small_batch(1))
    sequence = tuple(range(12))
    expected = pytest.approx(learner.probe([sequence])[0].tolist(), abs=3e-6)
    base = AutoModelForCausalLM.from_pretrained(folder)
    assert by_transformers(base, sequence) != expected
    merged = AutoModelForCausalLM.from_pretrained(folder)
    assert weights_of(learner).keys() == merged.state_dict().keys()
    merged.load_state_dict(weights_of(learner))
    assert by_transformers(merged, sequence) == expected
    learner.adapter(tmp_path / "adapter")
    assert by_transformers(PeftModel.from_pretrained(base, tmp_path / "adapter"), sequence) == expected


def test_an_adapter_names_its_base_as_others_find_it(tmp_path):
    snapshot = small_model(tmp_path / "models--some--model/snapshots/abc")
    learner_on(snapshot, learner={"lora": {"rank": 4}}).adapter(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "some/model"


def test_a_run_without_lora_has_no_adapter(folder, tmp_path):
    with pytest.raises(ValueError, match="no adapter"):
        learner_on(folder).adapter(tmp_path / "adapter")


@pytest.mark.parametrize("lora", [None, {"rank": 4}], ids=["full", "lora"])
def test_an_exported_model_is_one_of_hugging_faces(folder, tmp_path, lora):
    learner = learner_on(folder, learner={"lora": lora})
    steps_of(learner, small_batch())
    learner.export(tmp_path / "exported")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    sequence = tuple(range(12))
    expected = pytest.approx(learner.probe([sequence])[0].tolist(), abs=3e-6)
    assert by_transformers(model, sequence) == expected
    assert (tmp_path / "exported" / "tokenizer.json").exists()
    assert learner_on(tmp_path / "exported").probe([sequence])[0].tolist() == expected


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [({}, {}), (PPO, {"minibatches": 2, "epochs": 2}), (PPO, {"lora": {"rank": 4, "dropout": 0.3}})],
    ids=["grpo", "ppo", "lora with dropout"],
)
def test_a_learner_that_was_loaded_goes_on_bit_for_bit(folder, tmp_path, algorithm, settings):
    optimizer = {"learning_rate": 1e-2, "schedule": "cosine", "warmup_steps": 2, "weight_decay": 0.1}
    branches = {"algorithm": algorithm, "learner": {**settings, "optimizer": optimizer}}
    learner = learner_on(folder, **branches)
    steps_of(learner, small_batch(0), small_batch(1))
    learner.save(tmp_path / "checkpoint").result()
    went_on = steps_of(learner, small_batch(2), small_batch(3))
    again = Learner(folder, run_config(**branches).learner_settings, "cpu")
    again.load_checkpoint(tmp_path / "checkpoint")
    came_back = steps_of(again, small_batch(2), small_batch(3))
    assert_near(weights_of(learner), weights_of(again), tolerance=0.0)
    for one, other in zip(went_on, came_back, strict=True):
        timed = [name for name in one if name.startswith(("time/", "throughput/"))]
        assert {**one, **dict.fromkeys(timed, 0)} == {**other, **dict.fromkeys(timed, 0)}


def test_a_run_that_is_given_more_steps_follows_the_schedule_of_all_of_them(folder, tmp_path):
    branches = {"learner": {"optimizer": {"learning_rate": 1e-2, "schedule": "linear", "final_share": 0}}}
    learner = learner_on(folder, **branches)
    learner.begin_stage(learner.settings.learner.optimizer, 2)
    steps_of(learner, small_batch(0), small_batch(1))
    assert learner.optimizer.rate == 0.0
    learner.save(tmp_path / "checkpoint").result()
    again = Learner(folder, run_config(**branches).learner_settings, "cpu")
    again.load_checkpoint(tmp_path / "checkpoint")
    again.continue_stage(8)
    assert again.optimizer.rate == pytest.approx(1e-2 * 6 / 8)


def test_random_states_of_all_kinds_go_on_too(folder, tmp_path):
    import random

    learner = learner_on(folder)
    learner.save(tmp_path / "checkpoint").result()
    drawn = [(random.random(), np.random.random(), torch.rand(1).item()) for _ in range(2)]
    learner.load_checkpoint(tmp_path / "checkpoint")
    assert [(random.random(), np.random.random(), torch.rand(1).item()) for _ in range(2)] == drawn


def test_a_checkpoint_with_a_former_name_of_a_setting_is_loaded(folder, tmp_path):
    learner = learner_on(folder, learner={"optimizer": {"schedule": "linear", "final_share": 0.25}})
    learner.save(tmp_path).result()
    (note,) = [file for file in tmp_path.glob("*.json") if "final_share" in file.read_text()]
    note.write_text(note.read_text().replace('"final_share"', '"least"'))
    again = learner_on(folder)
    again.load_checkpoint(tmp_path)
    assert again.optimizer.config.final_share == 0.25


def test_a_checkpoint_of_another_model_is_refused(folder, tmp_path):
    learner_on(folder).save(tmp_path / "checkpoint").result()
    with pytest.raises(CheckpointError, match="another model"):
        learner_on(small_model(tmp_path / "wider", hidden=64)).load_checkpoint(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="another model"):
        learner_on(folder, learner={"lora": {"rank": 2}}).load_checkpoint(tmp_path / "checkpoint")


def test_a_folder_without_a_checkpoint_is_refused(folder, tmp_path):
    with pytest.raises(CheckpointError, match="is not a learner checkpoint"):
        learner_on(folder).load_checkpoint(tmp_path)


def test_several_workers_need_a_process_group(folder):
    with pytest.raises(ValueError, match="process group"):
        Learner(folder, run_config().learner_settings, "cpu", rank=0, world=2)


def test_a_batch_is_credited_before_it_is_learned_from(folder):
    batch = small_batch()
    bare = replace(batch, samples=tuple(replace(each, advantages_T=None) for each in batch.samples))
    with pytest.raises(ValueError, match="advantages"):
        learner_on(folder).update(bare)


@pytest.mark.parametrize("settings", [{}, {"layout": "packed", "lora": {"rank": 4}}], ids=["full", "lora"])
def test_bfloat16_is_for_computing_and_what_is_trained_stays_in_float32(folder, settings):
    settings = {**settings, "dtype": "bfloat16", "gradient_checkpointing": True}
    learner = learner_on(folder, algorithm=PPO, learner=settings)
    before, sequence = weights_of(learner), tuple(range(12))
    exact = learner_on(folder).probe([sequence])[0]
    rough = learner.probe([sequence])[0]
    assert 1e-4 < np.abs(exact - rough).max() < 0.2
    steps_of(learner, small_batch(0), small_batch(1))
    after = weights_of(learner)
    trained = [weight for weight in learner.model.core.parameters() if weight.requires_grad]
    assert {weight.dtype for weight in trained} == {torch.float32}
    assert not torch.equal(
        before["model.layers.0.mlp.up_proj.weight"], after["model.layers.0.mlp.up_proj.weight"]
    )
