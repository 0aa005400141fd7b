"""The reverse KL to a teacher as an advantage of each token."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.harness.samples import batch, sample
from trainer.advantage import credit
from trainer.advantage.distillation import reverse_kl
from trainer.config.algorithm import AlgorithmConfig, DrGrpo
from trainer.errors import RunEnded

TEACHER = {"teacher": {"kind": "model", "path": "teacher"}}


def algorithm(**distillation):
    settings = {"advantage": {"kind": "dr_grpo"}, "distillation": TEACHER | distillation}
    return AlgorithmConfig.model_validate(settings)


def taught(name, old, teacher, rewards=None, **fields):
    """An episode with a prompt token and sampled tokens with these log-probabilities."""
    turns = [-1, *(0,) * (len(old) - 1)]
    made = sample(name, turns, rewards or [0.0] * len(old), old=old, **fields)
    return replace(made, teacher_logprobs_T=np.array(teacher, dtype=np.float32))


def test_a_token_gets_what_the_teacher_gives_it_more_than_the_policy() -> None:
    done = credit(batch(taught("0.0", [0, -1.0, -2.0], [9, -0.5, -4.0])), algorithm())
    assert done.samples[0].advantages_T.tolist() == [0, 0.5, -2.0]
    assert done.metrics["distillation/kl"] == pytest.approx(0.75)
    assert done.metrics["distillation/kl_sequence"] == pytest.approx(1.5)


def test_a_discount_credits_earlier_tokens_with_later_differences() -> None:
    given = batch(taught("0.0", [0, -1.0, -2.0, -1.0], [0, -0.5, -4.0, -2.0]))
    # KLs -0.5, 2, 1.
    done = credit(given, algorithm(discount=0.5, weight=2.0))
    assert done.samples[0].advantages_T.tolist() == [0, -1.5, -5.0, -2.0]


def test_the_tasks_advantage_is_added_with_its_weight() -> None:
    rows = (
        taught("0.0", [0, -1.0], [0, -2.0], [0, 1.0]),
        taught("0.1", [0, -1.0], [0, -0.5], [0, 0.0]),
    )
    alone = credit(batch(*rows), AlgorithmConfig(advantage=DrGrpo()))
    both = credit(batch(*rows), algorithm(task_weight=4.0))
    assert [each.advantages_T[1] for each in alone.samples] == [0.5, -0.5]
    assert [each.advantages_T[1] for each in both.samples] == [4 * 0.5 - 1.0, 4 * -0.5 + 0.5]


def test_segments_of_an_episode_are_one_sequence_of_tokens() -> None:
    first = taught("0.0", [0, -1.0], [0, -1.5])
    second = replace(taught("0.0", [0, -1.0], [0, -2.0], segment=1), turns_T=np.array([-1, 1], np.int32))
    done = credit(batch(first, second), algorithm(discount=1.0))
    assert [each.advantages_T[1] for each in done.samples] == [-1.5, -1.0]


def test_an_episode_without_a_score_is_not_learned_from_the_teacher_either() -> None:
    rows = (taught("0.0", [0, -1.0], [0, -2.0], weight=0.0), taught("0.1", [0, -1.0], [0, -3.0]))
    done = credit(batch(*rows), algorithm())
    assert [each.advantages_T[1] for each in done.samples] == [0, -2.0]
    assert done.metrics["distillation/kl"] == pytest.approx(2.0)


def test_a_token_that_the_teacher_never_says_has_a_bounded_advantage() -> None:
    assert reverse_kl(np.array([-1.0, -np.inf]), np.array([-np.inf, -np.inf])).tolist() == [20.0, 0.0]


@pytest.mark.parametrize(("old", "teacher", "whose"), [(-1.0, np.nan, "teacher"), (np.nan, -1.0, "policy")])
def test_a_log_probability_that_is_no_number_ends_the_run(old, teacher, whose) -> None:
    with pytest.raises(RunEnded, match=f"the {whose}'s log-probability of a sampled token"):
        credit(batch(taught("0.0", [0, old], [0, teacher])), algorithm())


def test_a_batch_that_no_teacher_scored_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sample 0\.0 lacks log-probabilities of the policy or the teacher"):
        credit(batch(sample("0.0", [-1, 0], [0, 0], old=[0, -1])), algorithm())


def test_the_expected_gradient_is_that_of_the_reverse_kl() -> None:
    """Over all tokens of a vocabulary of five, weighted by their probability, in place of samples."""
    torch.manual_seed(0)
    logits, teacher = torch.randn(5, dtype=torch.double, requires_grad=True), torch.randn(5).double()
    logp, logq = logits.log_softmax(-1), teacher.log_softmax(-1)
    kl = (logp.exp() * (logp - logq)).sum()
    (expected,) = torch.autograd.grad(kl, logits, retain_graph=True)
    advantages = -torch.from_numpy(reverse_kl(logp.detach().numpy(), logq.numpy()))
    loss = -(logp.detach().exp() * advantages * logp).sum()
    (found,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(found, expected)


def test_groups_of_equal_rewards_are_trained_on_and_groups_may_have_one_episode() -> None:
    assert not algorithm().compares_groups
    assert not algorithm().uses_rewards
    assert algorithm(task_weight=0.5).uses_rewards
