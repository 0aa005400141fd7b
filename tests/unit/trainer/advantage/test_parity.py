"""The same advantages as TRL's, where it has the same formula."""

import pytest
import torch

from tests.harness.samples import batch, outcomes, sample
from tests.harness.trl_formulas import trl_grpo_advantages, trl_rloo_advantages
from trainer.advantage import credit
from trainer.config.algorithm import AlgorithmConfig, DrGrpo, Grpo, KlConfig, Rloo

GROUPS = [[0.0, 1.0, 1.0, 0.25], [0.3, -0.7, 2.0, 0.1], [0.5, 0.5, 0.5, 0.5]]


def credited(algorithm: object) -> list[float]:
    rows = [row for index, rewards in enumerate(GROUPS) for row in outcomes(*rewards, group=index)]
    return [
        float(row.advantages_T[-1])
        for row in credit(batch(*rows), AlgorithmConfig(advantage=algorithm)).samples
    ]


@pytest.mark.parametrize(
    ("algorithm", "scale"), [(Grpo(), "group"), (DrGrpo(), "none")], ids=["grpo", "dr_grpo"]
)
def test_group_advantages_are_those_of_trl(algorithm: object, scale: str) -> None:
    theirs = trl_grpo_advantages(torch.tensor(GROUPS, dtype=torch.float64).flatten(), 4, scale=scale)
    assert credited(algorithm) == pytest.approx(theirs.tolist(), abs=1e-6)


def test_leave_one_out_advantages_are_those_of_trl() -> None:
    theirs = trl_rloo_advantages(torch.tensor(GROUPS, dtype=torch.float64).flatten(), 4)
    assert credited(Rloo()) == pytest.approx(theirs.tolist(), abs=1e-6)


def test_trajectories_without_a_verdict_leave_the_baseline_as_in_trl() -> None:
    theirs = trl_rloo_advantages(torch.tensor([0.0, 1.0, float("nan"), 0.5], dtype=torch.float64), 4)
    failed = sample("0.2", [-1, 0, 0], [0, 0, 0], weight=0.0)
    rows = batch(*outcomes(0.0, 1.0), failed, *outcomes(0.5, first=3))
    ours = credit(rows, AlgorithmConfig(advantage=Rloo())).samples
    assert [float(row.advantages_T[-1]) for row in ours] == pytest.approx(theirs.tolist(), abs=1e-6)


def test_a_kl_in_the_reward_moves_advantages_as_in_trl() -> None:
    old, ref = [[-1.0, -0.5], [-2.0, -0.1]], [[-1.5, -0.5], [-1.0, -0.7]]
    rewards = torch.tensor([1.0, 0.0], dtype=torch.float64)
    penalties = (torch.tensor(old) - torch.tensor(ref)).sum(-1).double()
    theirs = trl_rloo_advantages(rewards - 0.1 * penalties, 2)
    rows = [
        sample(
            f"0.{index}",
            [-1, 0, 0],
            [0, 0, float(rewards[index])],
            old=[0, *old[index]],
            ref=[0, *ref[index]],
        )
        for index in range(2)
    ]
    config = AlgorithmConfig(advantage=Rloo(), kl=KlConfig(place="reward", estimator="k1"))
    ours = credit(batch(*rows), config, kl_coefficient=0.1).samples
    assert [float(row.advantages_T[-1]) for row in ours] == pytest.approx(theirs.tolist(), abs=1e-6)
