"""The loss on labelled steps: beside torch's cross-entropy, with labels that are not known."""

import numpy as np
import pytest
import torch

from trainer.advantage.step_estimation import probabilities, step_estimation


def test_loss_and_derivatives_are_those_of_torch() -> None:
    outputs = np.array([[0.3, -2.0], [5.0, 0.0], [-80.0, 90.0]])
    labels = np.array([[1.0, 0.25], [0.5, 0.0], [0.0, 1.0]])
    given = torch.tensor(outputs, requires_grad=True)
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(given, torch.tensor(labels))
    theirs.backward()
    ours = step_estimation(outputs, labels)
    assert ours.loss == pytest.approx(theirs.item(), rel=1e-12)
    assert ours.by_outputs_KD == pytest.approx(given.grad.numpy(), abs=1e-12)
    assert ours.known == 6


def test_an_unknown_label_counts_for_nothing() -> None:
    outputs = np.array([[0.3, -2.0], [5.0, 0.0]])
    labels = np.array([[1.0, np.nan], [np.nan, np.nan]])
    ours = step_estimation(outputs, labels)
    assert ours.loss == pytest.approx(np.log1p(np.exp(-0.3)))
    assert ours.by_outputs_KD[0, 0] == pytest.approx(probabilities(np.array(0.3)) - 1)
    assert ours.by_outputs_KD.flatten()[1:].tolist() == [0, 0, 0]


def test_without_a_known_label_there_is_no_loss() -> None:
    ours = step_estimation(np.ones((2, 1)), np.full((2, 1), np.nan))
    assert (ours.loss, ours.known) == (0.0, 0)
    assert not ours.by_outputs_KD.any()
