"""Bytes in memory by tenant: those that find room, those that are refused, and what stays free for others."""

from __future__ import annotations

import pytest

from sandbox_service.errors import OverCapacityError
from sandbox_service.gateway.held_bytes import HeldBytes

MIB = 1024 * 1024
STRANGER = ""


def test_callers_without_a_key_take_no_room_from_those_who_have_one():
    held = HeldBytes("answers", 16 * MIB, 16 * MIB)
    held.take_bytes(STRANGER, 8 * MIB)
    with pytest.raises(OverCapacityError, match="callers without a key"):
        held.take_bytes(STRANGER, 1)
    held.take_bytes("ada", 16 * MIB)
    held.give_back(STRANGER, 8 * MIB)
    assert held.total_bytes == 16 * MIB
    held.take_bytes(STRANGER, 8 * MIB)


def test_a_first_answer_has_room_beyond_the_bound_of_its_tenant():
    held = HeldBytes("answers", 4 * MIB, MIB)
    held.take_bytes("ada", 3 * MIB)
    with pytest.raises(OverCapacityError, match=r"this tenant .*quota\.bodies_mib"):
        held.take_bytes("ada", 1)
    with pytest.raises(OverCapacityError, match=r"all tenants .*server\.bodies_mib"):
        held.take_bytes("bob", 2 * MIB)


def test_an_answer_larger_than_any_bound_has_room_while_there_is_no_other():
    held = HeldBytes("answers", 2 * MIB, MIB)
    held.take_bytes("ada", 40 * MIB)
    with pytest.raises(OverCapacityError, match=r"server\.bodies_mib"):
        held.take_bytes("bob", 1)
    held.give_back("ada", 40 * MIB)
    held.take_bytes("bob", 1)


def test_tenants_that_hold_nothing_find_the_reserve():
    held = HeldBytes("answers", 4 * MIB, 4 * MIB, reserve=MIB)
    held.take_bytes("ada", 2 * MIB)
    held.take_bytes("ada", MIB)
    with pytest.raises(OverCapacityError, match=r"all tenants .*server\.bodies_mib"):
        held.take_bytes("ada", 1)
    held.take_bytes("bob", MIB // 2)
    with pytest.raises(OverCapacityError, match=r"server\.bodies_mib"):
        held.take_bytes("bob", 1)
    held.take_bytes("eve", MIB // 2)


def test_the_bound_of_a_single_tenant_is_that_of_all():
    held = HeldBytes("answers", MIB, MIB)
    held.take_bytes("ada", MIB)
    with pytest.raises(OverCapacityError, match=r"server\.bodies_mib"):
        held.take_bytes("ada", 1)
