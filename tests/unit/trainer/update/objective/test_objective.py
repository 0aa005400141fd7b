"""The loss put together: its parts, its metrics, and what does not change it."""

import pytest
import torch

from tests.harness.loss_inputs import inputs
from trainer.config.algorithm import (
    AlgorithmConfig,
    CispoLoss,
    Gae,
    GspoLoss,
    KlConfig,
    LossConfig,
    MismatchConfig,
    PpoLoss,
    ValueConfig,
)
from trainer.update.objective import (
    LossInputs,
    Totals,
    likelihood_loss,
    objective,
    reported,
    row_token_weights,
)

PLAIN = AlgorithmConfig(mismatch=MismatchConfig(mode="off"))


def halves(rows: LossInputs) -> torch.Tensor:
    """Two tokens, each half of the minibatch."""
    return rows.mask_BT * 0.5


def test_parts_are_weighed_and_summed() -> None:
    rows = inputs(
        [[-1.0, -2.0]],
        advantages=[[2.0, 4.0]],
        ref_logprobs=[[-2.0, -2.0]],
        entropy=[[0.5, 1.5]],
        values=[[1.0, 0.0]],
        old_values=[[1.0, 0.0]],
        returns=[[0.0, 2.0]],
    )
    config = AlgorithmConfig(
        advantage=Gae(),
        entropy=0.1,
        kl=KlConfig(place="loss", estimator="k2"),
        value=ValueConfig(coefficient=0.5),
        mismatch=MismatchConfig(mode="off"),
    )
    found = objective(rows, config, halves(rows), kl_coefficient=0.2)
    # By hand: a policy loss of -3, a KL of a quarter, an entropy of 1, and a value loss of 1.25.
    assert found.loss.item() == pytest.approx(-3 + 0.2 * 0.25 - 0.1 * 1 + 0.5 * 1.25)
    assert {name: value.item() for name, value in found.losses.items()} == pytest.approx(
        {"loss/policy": -3, "loss/kl": 0.25, "loss/value": 1.25}
    )
    assert {name: value.item() for name, value in found.sums.items()} == pytest.approx(
        {
            "tokens": 2,
            "policy/kl": 0,
            "policy/clip_share": 0,
            "policy/entropy": 2,
            "reference/kl": 0.5,
            "value/clip_share": 0,
        }
    )


def test_importance_weights_scale_the_policy_loss_alone() -> None:
    rows = inputs([[0.0, 0.0]], sampling=[[0.0, 1.0]], ref_logprobs=[[-1.0, -1.0]])
    config = AlgorithmConfig(kl=KlConfig(place="loss", estimator="k2"))
    found = objective(rows, config, halves(rows), kl_coefficient=1.0)
    assert found.losses["loss/policy"].item() == pytest.approx(-(1 + torch.e**-1) / 2)
    assert found.losses["loss/kl"].item() == pytest.approx(0.5)


def test_a_kl_in_the_reward_is_measured_and_not_in_the_loss() -> None:
    rows = inputs([[0.0, 0.0]], ref_logprobs=[[-1.0, -1.0]])
    config = PLAIN.model_copy(update={"kl": KlConfig(place="reward", estimator="k1")})
    found = objective(rows, config, halves(rows), kl_coefficient=9.0)
    assert found.loss.item() == -1
    assert found.sums["reference/kl"].item() == 2


def test_metrics_count_clipped_tokens_and_how_far_the_policy_moved() -> None:
    rows = inputs([[0.0, 0.0]], old=[[-1.0, 0.0]])
    found = objective(rows, PLAIN, halves(rows))
    assert found.sums["policy/clip_share"].item() == 1
    # k3 of KL(old | now) at a ratio of e: e - 1 - 1.
    assert found.sums["policy/kl"].item() == pytest.approx(torch.e - 2, rel=1e-5)


def test_tokens_of_weight_zero_are_in_no_metric() -> None:
    rows = inputs([[0.0, 0.0]], old=[[-1.0, 0.0]])
    found = objective(rows, PLAIN, torch.tensor([[0.0, 0.5]]))
    assert found.sums["tokens"].item() == 1
    assert found.sums["policy/clip_share"].item() == 0


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        (PLAIN.model_copy(update={"kl": KlConfig(place="loss")}), "reference"),
        (PLAIN.model_copy(update={"entropy": 0.1}), "entropy"),
    ],
    ids=["kl", "entropy"],
)
def test_a_part_that_is_missing_is_named(config: AlgorithmConfig, missing: str) -> None:
    rows = inputs([[0.0]])
    with pytest.raises(ValueError, match=missing):
        objective(rows, config, halves(rows))


def test_a_critic_without_targets_is_refused() -> None:
    rows = inputs([[0.0]], values=[[0.0]])
    with pytest.raises(ValueError, match="returns"):
        objective(rows, PLAIN, halves(rows))


def test_the_loss_of_fine_tuning_is_the_negative_log_likelihood_weighed_by_advantages() -> None:
    rows = inputs([[-1.0, -3.0, -50.0]], advantages=[[1.0, 2.0, 1.0]], mask=[[1, 1, 0]])
    found = likelihood_loss(rows, halves(rows))
    assert found.loss.item() == pytest.approx((1 + 6) / 2)
    assert found.losses["loss/sft"].item() == pytest.approx(3.5)
    assert found.sums["tokens"].item() == 2


LOSSES = [PpoLoss(dual_clip=3.0), GspoLoss(), CispoLoss()]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda each: each.kind)


def full(loss: LossConfig, level: str = "sequence", aggregation: str = "sequence") -> AlgorithmConfig:
    """Everything switched on."""
    return AlgorithmConfig(
        advantage=Gae(),
        loss=loss,
        aggregation=aggregation,
        entropy=0.1,
        kl=KlConfig(place="loss"),
        mismatch=MismatchConfig(level=level),
    )


def drawn(mask: torch.Tensor, seed: int = 0) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    names = ("logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs", "advantages", "entropy")
    given = {f"{name}_BT": torch.randn(mask.shape, generator=source) for name in names}
    for name in ("values", "old_values", "returns"):
        given[f"{name}_BT"] = torch.randn(mask.shape, generator=source)
    return given


@each_loss
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_padded_packed_and_split_micro_batches_agree(loss: LossConfig, aggregation: str) -> None:
    mask = torch.tensor([[0, 1, 1, 0, 1], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0]]) > 0
    given, weights, totals = drawn(mask), torch.tensor([1.0, 0.5, 1.0]), Totals(5.0, 2.5)
    config = full(loss, aggregation=aggregation)

    def run(part: dict[str, torch.Tensor], mask: torch.Tensor, weights: torch.Tensor, sequences=None):
        now = part["logprobs_BT"].clone().requires_grad_()
        rows = LossInputs(**{**part, "logprobs_BT": now}, mask_BT=mask, sequences_BT=sequences)
        shares = row_token_weights(mask, weights, aggregation, totals, 8, sequences)
        found = objective(rows, config, shares, 0.3)
        found.loss.backward()
        return found, now.grad

    padded, gradient = run(given, mask, weights)
    order = torch.arange(3)[:, None].expand(3, 5).flatten()[None]
    packed, flat = run(
        {name: value.flatten()[None] for name, value in given.items()}, mask.flatten()[None], weights, order
    )
    torch.testing.assert_close(flat.view(3, 5), gradient)
    splits = [
        run(
            {name: value[row : row + 1] for name, value in given.items()},
            mask[row : row + 1],
            weights[row : row + 1],
        )
        for row in range(3)
    ]
    torch.testing.assert_close(torch.cat([part for _, part in splits]), gradient)
    for name, value in {**padded.losses, **padded.sums}.items():
        torch.testing.assert_close({**packed.losses, **packed.sums}[name], value)
        torch.testing.assert_close(sum({**part.losses, **part.sums}[name] for part, _ in splits), value)


@each_loss
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_whatever_stands_outside_of_the_mask_does_not_matter(loss: LossConfig, level: str) -> None:
    mask = torch.tensor([[0, 1, 1, 0]]) > 0
    clean = drawn(mask)
    dirty = {name: value.masked_fill(~mask, float("nan")) for name, value in clean.items()}
    found = []
    for given in (clean, dirty):
        now = given["logprobs_BT"].clone().requires_grad_()
        rows = LossInputs(**{**given, "logprobs_BT": now}, mask_BT=mask)
        output = objective(rows, full(loss, level), mask * 0.5, 0.3)
        output.loss.backward()
        found.append((output.loss.detach(), now.grad, *output.sums.values()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@each_loss
def test_an_empty_micro_batch_has_zero_loss_zero_gradient_and_all_names(loss: LossConfig) -> None:
    mask = torch.zeros(1, 3, dtype=torch.bool)
    given = drawn(mask)
    now = given["logprobs_BT"].requires_grad_()
    empty = objective(LossInputs(**given, mask_BT=mask), full(loss), mask * 0.5, 0.3)
    empty.loss.backward()
    assert empty.loss.item() == 0
    assert now.grad.tolist() == [[0, 0, 0]]
    other = objective(LossInputs(**drawn(~mask), mask_BT=~mask), full(loss), ~mask * 0.5, 0.3)
    assert (list(empty.losses), list(empty.sums)) == (list(other.losses), list(other.sums))


@each_loss
def test_bfloat16_inputs_are_computed_in_float32(loss: LossConfig) -> None:
    mask = torch.ones(1, 4, dtype=torch.bool)
    halved = {name: value.bfloat16() for name, value in drawn(mask).items()}
    exact = {name: value.float() for name, value in halved.items()}
    found = [
        objective(LossInputs(**given, mask_BT=mask), full(loss), mask * 0.25, 0.3)
        for given in (halved, exact)
    ]
    assert found[0].loss.dtype == torch.float32
    torch.testing.assert_close(found[0].loss, found[1].loss, rtol=0, atol=0)


def test_reports_are_means_over_updates_and_over_tokens() -> None:
    found = reported({"loss/policy": 3.0}, {"tokens": 4.0, "policy/kl": 2.0}, updates=2)
    assert found == {"loss/policy": 1.5, "policy/kl": 0.5, "tokens/trained": 4.0}


def test_a_report_of_no_token_divides_nothing() -> None:
    assert reported({"loss/policy": 0.0}, {"tokens": 0.0, "policy/kl": 0.0}, updates=0)["policy/kl"] == 0
