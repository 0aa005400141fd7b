"""The critic's loss by hand."""

import torch

from trainer.update.objective.value_loss import value_loss


def test_without_a_clip_it_is_half_the_squared_error() -> None:
    losses, clipped = value_loss(
        torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]), None
    )
    assert losses.tolist() == [[0.5, 2.0]]
    assert not clipped.any()


def test_a_value_that_ran_towards_its_target_is_held_where_the_clip_ends() -> None:
    values = torch.tensor([[0.9, 0.1, -0.5]], requires_grad=True)
    losses, clipped = value_loss(values, torch.zeros(1, 3), torch.ones(1, 3), 0.2)
    # Held at 0.2: (0.2 - 1)^2 / 2; within the clip: (0.1 - 1)^2 / 2; away from the target: (-0.5 - 1)^2 / 2.
    torch.testing.assert_close(losses, torch.tensor([[0.32, 0.405, 1.125]]))
    assert clipped.tolist() == [[True, False, False]]
    losses.sum().backward()
    torch.testing.assert_close(values.grad, torch.tensor([[0.0, -0.9, -1.5]]))
