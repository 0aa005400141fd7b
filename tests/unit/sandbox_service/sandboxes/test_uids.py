"""Ranges of user ids."""

import secrets
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


@pytest.fixture
def claims():
    """Claims of a machine where nobody else is."""
    return f"test-uids-{secrets.token_hex(8)}"


def test_nodes_of_one_machine_share_no_id_whatever_they_are_called(claims):
    ranges = [UidRanges("n1", claims) for _ in range(3)]
    parts = sorted((each.all for each in ranges), key=lambda uids: uids.start)
    assert all(left.stop <= right.start for left, right in pairwise(parts))


def test_a_node_that_comes_back_has_its_ids_again(claims):
    first = UidRanges("n1", claims)
    ids = first.all
    first.close()
    first.close()
    assert UidRanges("n1", claims).all == ids


def test_there_is_an_end_to_the_ids_of_a_machine(claims):
    taken = [UidRanges("n1", claims) for _ in range(16)]
    with pytest.raises(ServiceError, match="all user ids"):
        UidRanges("n2", claims)
    taken[3].close()
    assert UidRanges("n2", claims).all == taken[3].all


def test_ids_are_far_above_people_and_within_signed_32_bits():
    for node in ("n1", "n2", "another"):
        uids = UidRanges(node).all
        assert uids.start >= 1_000_000_000
        assert uids.stop <= 2**31
        assert len(UidRanges(node).take()) == RANGE
