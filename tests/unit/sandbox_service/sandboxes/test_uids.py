"""Ranges of user ids."""

from itertools import pairwise

import pytest

from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.uids import RANGE, UidRanges


def test_living_boxes_never_share_an_id():
    ranges = UidRanges("n1")
    taken = sorted((ranges.take() for _ in range(1024)), key=lambda uids: uids.start)
    assert all(left.stop <= right.start for left, right in pairwise(taken))
    with pytest.raises(ServiceError, match="at most"):
        ranges.take()


def test_a_range_that_came_back_is_taken_again_last():
    ranges = UidRanges("n1")
    first = ranges.take()
    ranges.give_back(first)
    assert ranges.take() != first


def test_ids_are_far_above_people_and_within_signed_32_bits():
    for node in ("n1", "n2", "another"):
        uids = UidRanges(node).all
        assert uids.start >= 1_000_000_000
        assert uids.stop <= 2**31
        assert len(UidRanges(node).take()) == RANGE
