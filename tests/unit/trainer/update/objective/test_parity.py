"""The same losses and gradients as TRL's, where it has the same formula."""

import pytest
import torch
from torch import Tensor

from tests.harness.trl_formulas import trl_importance, trl_loss
from trainer.config.algorithm import (
    AlgorithmConfig,
    CispoLoss,
    GspoLoss,
    KlConfig,
    MismatchConfig,
    PpoLoss,
)
from trainer.update.objective import LossInputs, Totals, objective, row_token_weights
from trainer.update.objective.mismatch import correction

OFF = MismatchConfig(mode="off")
LONGEST = 9


class Numbers:
    """Five rows of seven tokens, their policies moderately apart."""

    def __init__(self, seed: int = 0, spread: float = 0.5) -> None:
        source = torch.Generator().manual_seed(seed)

        def drawn(scale: float) -> Tensor:
            return torch.randn(5, 7, generator=source) * scale

        self.old = -drawn(1.0).abs()
        self.now = self.old + drawn(spread)
        self.sampling = self.old + drawn(spread)
        self.ref = self.old + drawn(spread)
        self.entropy = drawn(1.0).abs()
        self.advantages = torch.randn(5, 1, generator=source)
        self.mask = torch.rand(5, 7, generator=source) > 0.3
        self.mask[4] = False
        self.mask[4, 2] = True

    def ours(self, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
        """Loss, and its gradient by the log-probabilities."""
        now = self.now.clone().requires_grad_()
        totals = Totals(tokens=float(self.mask.sum()), sequences=5.0)
        weights = row_token_weights(
            self.mask, torch.ones(5), config.aggregation, totals, config.constant_length
        )
        inputs = LossInputs(
            logprobs_BT=now,
            old_logprobs_BT=self.old,
            sampling_logprobs_BT=self.sampling,
            advantages_BT=self.advantages.expand(5, 7),
            mask_BT=self.mask,
            ref_logprobs_BT=self.ref,
            entropy_BT=self.entropy,
        )
        loss = objective(inputs, config, weights, config.kl.coefficient).loss
        loss.backward()
        return loss.detach(), now.grad

    def theirs(self, **settings: object) -> tuple[Tensor, Tensor]:
        now = self.now.clone().requires_grad_()
        loss = trl_loss(now, self.old, self.advantages, self.mask, **settings)
        loss.backward()
        return loss.detach(), now.grad


def assert_same(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> None:
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1], theirs[1])
    assert ours[1].abs().sum() > 0


PPO = PpoLoss(clip_low=0.2, clip_high=0.28)
CASES = {
    "grpo": (AlgorithmConfig(loss=PPO, aggregation="sequence"), {"loss_type": "grpo"}),
    "dapo": (AlgorithmConfig(loss=PPO, aggregation="token"), {"loss_type": "dapo"}),
    "bnpo": (AlgorithmConfig(loss=PPO, aggregation="token"), {"loss_type": "bnpo"}),
    "dr_grpo": (
        AlgorithmConfig(loss=PPO, aggregation="constant", constant_length=LONGEST),
        {"loss_type": "dr_grpo", "longest": LONGEST},
    ),
    "dual clip": (
        AlgorithmConfig(loss=PpoLoss(clip_low=0.2, clip_high=0.28, dual_clip=1.5)),
        {"loss_type": "dapo", "delta": 1.5},
    ),
    "gspo": (
        AlgorithmConfig(loss=GspoLoss(clip_low=0.1, clip_high=0.15), aggregation="sequence"),
        {"loss_type": "grpo", "level": "sequence", "epsilon_low": 0.1, "epsilon_high": 0.15},
    ),
    "cispo": (
        AlgorithmConfig(loss=CispoLoss(clip_high=0.5)),
        {"loss_type": "cispo", "epsilon_high": 1.5},
    ),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_a_loss_and_its_gradient_are_those_of_trl(name: str, seed: int) -> None:
    config, settings = CASES[name]
    numbers = Numbers(seed)
    assert_same(numbers.ours(config.model_copy(update={"mismatch": OFF})), numbers.theirs(**settings))


@pytest.mark.parametrize("name", ["grpo", "dapo", "cispo"])
def test_a_kl_in_the_loss_is_that_of_trl(name: str) -> None:
    config, settings = CASES[name]
    numbers = Numbers(1)
    config = config.model_copy(update={"mismatch": OFF, "kl": KlConfig(place="loss", coefficient=0.3)})
    assert_same(numbers.ours(config), numbers.theirs(**settings, beta=0.3, ref_logprobs=numbers.ref))


def test_the_entropy_bonus_is_that_of_trl() -> None:
    numbers = Numbers(2)
    config = AlgorithmConfig(loss=PPO, mismatch=OFF, entropy=0.7)
    theirs = numbers.theirs(loss_type="dapo", entropy=numbers.entropy, entropy_coefficient=0.7)
    assert_same(numbers.ours(config), theirs)


IMPORTANCE = {
    "token truncate": (MismatchConfig(mode="truncate", cap=1.3), {"mode": "token_truncate", "most": 1.3}),
    "token mask": (
        MismatchConfig(mode="mask", cap=1.3, floor=0.8),
        {"mode": "token_mask", "least": 0.8, "most": 1.3},
    ),
    "sequence truncate": (
        MismatchConfig(mode="truncate", level="sequence", cap=1.3),
        {"mode": "sequence_truncate", "most": 1.3},
    ),
    "sequence mask": (
        MismatchConfig(mode="mask", level="sequence", cap=2.0, floor=0.3),
        {"mode": "sequence_mask", "least": 0.3, "most": 2.0},
    ),
}


@pytest.mark.parametrize("name", IMPORTANCE)
def test_importance_weights_and_the_loss_with_them_are_those_of_trl(name: str) -> None:
    config, settings = IMPORTANCE[name]
    numbers = Numbers(3)
    numbers.sampling[0, 0] = float("nan")
    theirs = trl_importance(numbers.old, numbers.sampling, numbers.mask, **settings)
    found = correction(numbers.old, numbers.sampling, numbers.mask, config)
    expected = theirs.expand(5, 7)
    torch.testing.assert_close(found.weights_BT[numbers.mask], expected[numbers.mask])
    assert found.corrected_BT.any()
    assert not found.corrected_BT[numbers.mask].all()
    algorithm = AlgorithmConfig(loss=PPO, mismatch=config)
    assert_same(numbers.ours(algorithm), numbers.theirs(loss_type="dapo", importance=theirs))
