import numpy as np
import pytest
import torch

from trainer.update.packing import Row, lay_out

ROWS = [
    Row(np.array([10, 11, 12], dtype=np.int32), np.array([False, True, True])),
    Row(np.array([20, 21, 22, 23, 24], dtype=np.int32), np.array([False, False, False, True, False])),
]
CPU = torch.device("cpu")


def test_padded_rows_are_side_by_side():
    micro = lay_out(ROWS, (0, 1), "padded", CPU)
    assert micro.input_ids.tolist() == [[10, 11, 12, 0, 0], [20, 21, 22, 23, 24]]
    assert micro.position_ids is None
    assert micro.sources_K.tolist() == [0, 1, 7]


def test_packed_rows_follow_one_another_and_count_from_zero():
    micro = lay_out(ROWS, (1, 0), "packed", CPU)
    assert micro.input_ids.tolist() == [[20, 21, 22, 23, 24, 10, 11, 12]]
    assert micro.position_ids.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2]]
    assert micro.lengths == (5, 3)
    assert micro.sources_K.tolist() == [2, 5, 6]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_kept_tokens_are_the_targets_of_what_comes_before_them(layout):
    micro = lay_out(ROWS, (0, 1), layout, CPU)
    flat = micro.input_ids.flatten()
    assert micro.targets_K.tolist() == [11, 12, 23]
    assert flat[micro.sources_K].tolist() == [10, 11, 22]
    assert micro.sequences_K.tolist() == [0, 0, 1]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_a_pass_without_rows_has_one_kept_token_all_the_same(layout):
    micro = lay_out(ROWS, (), layout, CPU)
    assert micro.rows == ()
    assert micro.input_ids.shape == (1, 2)
    assert len(micro.sources_K) == len(micro.sequences_K) == 1
