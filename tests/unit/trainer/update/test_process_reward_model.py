"""A stage that trains a process reward model: exact gradients, and a folder for transformers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification

from tests.harness.learning import small_model
from trainer.advantage.step_credit import step_credit
from trainer.config import ProcessRewardModelStageConfig, RunConfig
from trainer.types import Batch, Objective, Sample
from trainer.update.learner import Learner

NAMES = ("correctness", "progress")
GOOD = 7
"""The token that a correct step ends with."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    data = tmp_path_factory.mktemp("data") / "steps.jsonl"
    data.write_text("")
    return ProcessRewardModelStageConfig(data={"files": [data]}, steps=4, name="steps", dimensions=NAMES)


@pytest.fixture
def model(folder, stage):
    config = RunConfig.model_validate(
        {"learner": {"micro_batch_tokens": 64}, "steps": 0, "stages": [stage.model_dump()]}
    )
    made = Learner(folder, config.learner_settings, "cpu")
    made.begin_stage(stage.optimizer.model_copy(update={"learning_rate": 1e-2}), 30, reference=True)
    return made


def episode(group: int, *, weight: float = 1.0) -> list[Sample]:
    """Two steps, of which the first or the second is correct, and the second is always progress."""
    rng = np.random.default_rng((3, group))
    good = [group % 2 == 0, group % 2 == 1]
    ids, ends = [], []
    for right in good:
        ids += [*rng.integers(8, 60, 3).tolist(), GOOD if right else 60]
        ends.append(len(ids))
    length = len(ids) + 1
    rows = []
    for output, labels in enumerate((good, [False, True])):
        mask = np.zeros(length, dtype=bool)
        rewards = np.zeros(length, dtype=np.float32)
        mask[ends] = True
        rewards[ends] = labels
        zeros = np.zeros(length, dtype=np.float32)
        none = np.full(length, -1, dtype=np.int32)
        tokens = np.array([*ids, 3], dtype=np.int32)
        rows.append(
            Sample(
                f"{group}/{output}",
                f"{group}",
                group,
                tokens,
                mask,
                zeros,
                rewards,
                none,
                none,
                weight,
                output=output,
            )
        )
    return rows


def batch(step: int) -> Batch:
    trained = [row for group in range(6) for row in episode(10 * step + group)]
    held_out = [row for group in range(4) for row in episode(1000 + group, weight=0.0)]
    return Batch(step, Objective.SCORES, (*trained, *held_out))


def test_the_update_has_the_gradient_of_the_cross_entropy(model):
    with torch.no_grad():
        torch.nn.init.normal_(model.model.core.value_head.weight)
    given = batch(0)
    credited = step_credit(model.annotate(given), NAMES)
    trained = [sample for sample in given.samples if sample.weight > 0]
    outputs, labels = [], []
    core = model.model.core
    for sample in trained:
        ids = torch.tensor(sample.token_ids_T[:-1].astype(np.int64))[None]
        hidden = core.language(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
        places = np.flatnonzero(sample.mask_T) - 1
        outputs.append(core.value_head(hidden[places])[:, sample.output])
        labels.append(torch.tensor(sample.rewards_T[sample.mask_T]))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(torch.cat(outputs), torch.cat(labels))
    parameters = dict(core.named_parameters())
    expected = torch.autograd.grad(loss, parameters.values(), allow_unused=True)
    assert credited.metrics["loss/process_reward_model"] == pytest.approx(loss.item(), rel=1e-4)
    seen = {}
    step = model.optimizer.step

    def keep():
        seen.update({name: each.grad.clone() for name, each in parameters.items() if each.grad is not None})
        return step()

    model.optimizer.step = keep
    model.update(credited)
    for name, gradient in zip(parameters, expected, strict=True):
        if gradient is not None:
            assert torch.allclose(seen[name], gradient, atol=1e-5, rtol=1e-3), name


def test_it_learns_to_judge_steps_that_it_never_saw_and_is_read_by_transformers(model, tmp_path):
    before = step_credit(model.annotate(batch(99)), NAMES).metrics
    for step in range(30):
        credited = step_credit(model.annotate(batch(step)), NAMES)
        model.update(credited)
    after = credited.metrics
    assert after["steps/held_out_accuracy"] == 1.0
    assert after["steps/held_out_brier"] < before["steps/held_out_brier"] / 4
    assert after["steps/held_out_accuracy/progress"] == 1.0
    assert model.export_reward_model(tmp_path / "steps", NAMES) == 0.0
    loaded, info = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "steps", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert loaded.config.id2label == dict(enumerate(NAMES))
    (row, *_) = model.annotate(batch(3)).samples
    with torch.no_grad():
        theirs = loaded(torch.tensor(row.token_ids_T[:-1].astype(np.int64))[None]).logits[0]
    places = np.flatnonzero(row.mask_T) - 1
    assert theirs[places, row.output].numpy() == pytest.approx(row.values_T[row.mask_T], abs=1e-4)


def test_unannotated_samples_are_refused():
    with pytest.raises(ValueError, match="annotate the batch first"):
        step_credit(replace(batch(0), samples=tuple(episode(0))), NAMES)
