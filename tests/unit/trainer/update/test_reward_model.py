"""A stage that trains a reward model: exact gradients, a folder for transformers, and the policy unharmed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.harness.learning import small_model
from trainer.advantage.score_credit import score_credit
from trainer.config import RewardModelStageConfig, RunConfig
from trainer.types import Batch, Objective, Sample
from trainer.update.learner import Learner

GOOD = 7
"""The token that a preferred completion ends with."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    data = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    data.write_text("")
    return RewardModelStageConfig(data={"files": [data]}, steps=4, name="reward", centering=0.01)


def learner(folder, stage, **settings):
    given = {"micro_batch_tokens": 64, **settings}
    config = RunConfig.model_validate(
        {
            "learner": given,
            "steps": 0,
            "stages": [stage.model_dump()],
            "algorithm": {"value": {"detach": True}},
        }
    )
    return Learner(folder, config.learner_settings, "cpu")


def sequence(name, group, ids, *, preferred, weight=1.0):
    """A row that is scored after its last token; the one behind it is of no account."""
    length = len(ids) + 1
    zeros = np.zeros(length, dtype=np.float32)
    mask = np.zeros(length, dtype=bool)
    mask[-1] = True
    return Sample(
        id=name,
        trajectory_id=name,
        group=group,
        token_ids_T=np.array([*ids, 3], dtype=np.int32),
        mask_T=mask,
        logprobs_T=zeros,
        rewards_T=zeros,
        turns_T=np.full(length, -1, dtype=np.int32),
        versions_T=np.full(length, -1, dtype=np.int32),
        weight=weight,
        preferred=preferred,
    )


def pairs(step, count=6, held_out=0):
    rng = np.random.default_rng((1, step))
    rows = []
    for group in range(count + held_out):
        ids = [rng.integers(8, 60, int(rng.integers(3, 12))).tolist() for _ in range(2)]
        weight = 1.0 if group < count else 0.0
        rows.append(sequence(f"{group}.0", group, [*ids[0], GOOD], preferred=True, weight=weight))
        rows.append(sequence(f"{group}.1", group, [*ids[1], 60], preferred=False, weight=weight))
    return Batch(step, Objective.SCORES, tuple(rows))


def train(model, stage, steps, first=0):
    metrics = {}
    for step in range(first, steps):
        credited = score_credit(model.annotate(pairs(step, held_out=4)), stage)
        metrics = credited.metrics
        model.update(credited)
    return metrics


def scores_of(model, batch):
    return [float(each.values_T[each.mask_T][0]) for each in model.annotate(batch).samples]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_gradients_are_those_of_the_loss_over_pairs(folder, stage, layout):
    model = learner(folder, stage, layout=layout)
    model.begin_stage(stage.optimizer, 4, reference=True)
    head = model.model.core.value_head
    with torch.no_grad():
        head.weight.copy_(torch.linspace(-1, 1, head.weight.numel())[None])
    batch = pairs(0)
    credited = score_credit(model.annotate(batch), stage)
    expected = {}
    scores = torch.stack([_torch_score(model.model.core, each) for each in batch.samples])
    chosen, rejected = scores[0::2], scores[1::2]
    loss = (
        -torch.nn.functional.logsigmoid(chosen - rejected).mean() + 0.01 * ((chosen + rejected) ** 2).mean()
    )
    parameters = dict(model.model.core.named_parameters())
    found = torch.autograd.grad(loss, parameters.values(), allow_unused=True)
    expected = dict(zip(parameters, found, strict=True))
    assert credited.metrics["loss/reward_model"] == pytest.approx(loss.item(), rel=1e-4)
    seen = {}
    step = model.optimizer.step

    def keep():
        seen.update({name: each.grad.clone() for name, each in parameters.items() if each.grad is not None})
        return step()

    model.optimizer.step = keep
    model.update(credited)
    for name, gradient in expected.items():
        if gradient is not None:
            assert torch.allclose(seen[name], gradient, atol=1e-5, rtol=1e-3), name


def _torch_score(core, sample):
    """The head on the trunk's last hidden state, by transformers alone."""
    ids = torch.tensor(sample.token_ids_T[:-1].astype(np.int64))[None]
    hidden = core.language(input_ids=ids, output_hidden_states=True).hidden_states[-1]
    return core.value_head(hidden[0, -1])[0]


def test_a_reward_model_learns_to_tell_pairs_apart_that_it_never_saw(folder, stage):
    model = learner(folder, stage)
    model.begin_stage(stage.optimizer.model_copy(update={"learning_rate": 1e-2}), 25, reference=True)
    before = score_credit(model.annotate(pairs(99, held_out=4)), stage).metrics
    after = train(model, stage, 25)
    assert before["pairs/held_out_accuracy"] == 0.5
    assert after["pairs/held_out_accuracy"] == 1.0
    assert after["pairs/held_out_brier"] < before["pairs/held_out_brier"] / 4
    assert after["pairs/held_out_margin"] > 1


def test_the_exported_folder_gives_transformers_the_same_scores(folder, stage, tmp_path):
    model = learner(folder, stage)
    model.begin_stage(stage.optimizer.model_copy(update={"learning_rate": 1e-2}), 5, reference=True)
    train(model, stage, 5)
    bias = model.export_reward_model(tmp_path / "reward")
    loaded, info = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "reward", output_loading_info=True
    )
    assert type(loaded).__name__ == "Qwen2ForSequenceClassification"
    assert not info["missing_keys"]
    batch = pairs(3)
    for sample, score in zip(batch.samples, scores_of(model, batch), strict=True):
        with torch.no_grad():
            theirs = loaded(torch.tensor(sample.token_ids_T[:-1].astype(np.int64))[None]).logits
        assert float(theirs) + bias == pytest.approx(score, abs=1e-4)


def test_the_policy_goes_on_as_it_was(folder, stage):
    model = learner(folder, stage)
    model.begin_stage(stage.optimizer, 3, reference=True)
    before = {name: each.clone() for name, each in model.named_weights()}
    train(model, stage, 3)
    assert any(not torch.equal(each, before[name]) for name, each in model.named_weights())
    model.restore_policy()
    assert all(torch.equal(each, before[name]) for name, each in model.named_weights())
    assert not model.model.core.value_head.weight.any()


def test_a_stage_resumes_in_its_middle_and_at_its_end(folder, stage, tmp_path):
    whole = learner(folder, stage)
    whole.begin_stage(stage.optimizer, 4, reference=True)
    start = {name: each.clone() for name, each in whole.named_weights()}
    train(whole, stage, 2)
    whole.save(tmp_path / "half").result()
    train(whole, stage, 4, first=2)
    again = learner(folder, stage)
    again.begin_stage(stage.optimizer, 4, reference=True)
    again.load_checkpoint(tmp_path / "half")
    train(again, stage, 4, first=2)
    assert scores_of(again, pairs(9)) == scores_of(whole, pairs(9))
    again.restore_policy()
    assert all(torch.equal(each, start[name]) for name, each in again.named_weights())


def test_the_head_learns_at_the_rate_of_its_stage_also_when_resumed(folder, stage, tmp_path):
    def fresh():
        config = RunConfig.model_validate(
            {
                "steps": 1,
                "stages": [stage.model_dump(), {"kind": "rl", "steps": 1}],
                "algorithm": {"advantage": {"kind": "gae"}, "value": {"learning_rate": 1e-2}},
            }
        )
        return Learner(folder, config.learner_settings, "cpu")

    def step_of_head(model):
        """AdamW's first updates of a weight are as large as its learning rate."""
        head = model.model.core.value_head.weight.detach()
        before = head[0].clone()
        model.update(score_credit(model.annotate(pairs(model.optimizer.done)), stage))
        return float((head[0] - before).abs().max())

    model = fresh()
    model.begin_stage(stage.optimizer, 4, reference=True, critic=False)
    assert step_of_head(model) < 2 * stage.optimizer.learning_rate
    model.save(tmp_path / "state").result()
    resumed = fresh()
    resumed.load_checkpoint(tmp_path / "state")
    assert step_of_head(resumed) < 2 * stage.optimizer.learning_rate
    model.begin_stage(stage.optimizer, 4, reference=True, critic=True)
    assert step_of_head(model) > 100 * stage.optimizer.learning_rate


def test_a_stage_before_ppo_leaves_other_losses_alone(folder, stage):
    model = learner(folder, stage)
    model.begin_stage(stage.optimizer, 2, reference=True)
    train(model, stage, 1)
    model.restore_policy()
    model.begin_stage(stage.optimizer, 2, reference=False)
    batch = replace(pairs(0), objective=Objective.POLICY)
    samples = tuple(replace(each, advantages_T=each.mask_T.astype(np.float32)) for each in batch.samples)
    assert np.isfinite(model.update(replace(batch, samples=samples))["loss/policy"])


def test_half_of_a_pair_is_an_error(stage):
    batch = pairs(0, count=1)
    samples = tuple(replace(each, values_T=np.zeros(len(each), dtype=np.float32)) for each in batch.samples)
    with pytest.raises(ValueError, match="lacks its chosen"):
        score_credit(replace(batch, samples=samples[:1]), stage)
    with pytest.raises(ValueError, match="has no score"):
        score_credit(batch, stage)
