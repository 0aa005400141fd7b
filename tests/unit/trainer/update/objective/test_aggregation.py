"""Weights of tokens: what adds up to what."""

import pytest
import torch

from trainer.update.objective import Totals, row_token_weights

MASK = torch.tensor([[0, 1, 1, 1], [0, 1, 0, 0]]) > 0
ONES = torch.ones(2)


def test_every_token_of_the_minibatch_weighs_the_same() -> None:
    found = row_token_weights(MASK, ONES, "token", Totals(4, 2), 10)
    assert found.tolist() == [[0, 0.25, 0.25, 0.25], [0, 0.25, 0, 0]]


def test_every_sequence_of_the_minibatch_weighs_the_same() -> None:
    found = row_token_weights(MASK, ONES, "sequence", Totals(4, 2), 10)
    torch.testing.assert_close(found, torch.tensor([[0, 1 / 6, 1 / 6, 1 / 6], [0, 0.5, 0, 0]]))


def test_a_constant_length_makes_long_sequences_weigh_more() -> None:
    found = row_token_weights(MASK, ONES, "constant", Totals(4, 2), 10)
    torch.testing.assert_close(found, MASK * 0.05)


def test_weights_of_sequences_scale_their_tokens() -> None:
    found = row_token_weights(MASK, torch.tensor([0.5, 0.0]), "token", Totals(1.5, 0.5), 10)
    torch.testing.assert_close(found, torch.tensor([[0, 1 / 3, 1 / 3, 1 / 3], [0, 0, 0, 0]]))


@pytest.mark.parametrize("mode", ["token", "sequence", "constant"])
def test_packed_rows_weigh_what_padded_ones_do(mode: str) -> None:
    weights = torch.tensor([1.0, 0.5])
    padded = row_token_weights(MASK, weights, mode, Totals(3.5, 1.5), 10)
    packed_mask = torch.cat([MASK[0], MASK[1, :2], torch.tensor([False])])[None]
    sequences = torch.tensor([[0, 0, 0, 0, 1, 1, -1]])
    packed = row_token_weights(packed_mask, weights, mode, Totals(3.5, 1.5), 10, sequences)
    torch.testing.assert_close(packed[packed_mask], padded[MASK])
    assert packed[~packed_mask].sum() == 0


@pytest.mark.parametrize("mode", ["token", "sequence", "constant"])
def test_an_empty_minibatch_weighs_nothing(mode: str) -> None:
    found = row_token_weights(torch.zeros(2, 3, dtype=torch.bool), ONES, mode, Totals(0, 0), 10)
    assert found.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("mode", ["token", "sequence"])
def test_weights_of_all_ranks_sum_to_one(mode: str) -> None:
    parts = [row_token_weights(MASK[row : row + 1], ONES[:1], mode, Totals(4, 2), 10) for row in range(2)]
    assert sum(float(part.sum()) for part in parts) == pytest.approx(1)


def test_bfloat16_weights_are_promoted() -> None:
    found = row_token_weights(MASK, ONES.bfloat16(), "token", Totals(3, 2), 10)
    assert found.dtype == torch.float32
    assert found[0, 1] == pytest.approx(1 / 3)
