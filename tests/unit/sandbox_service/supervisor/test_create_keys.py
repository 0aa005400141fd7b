"""A used key is never taken for a new one, and a new one seldom for a used one."""

from __future__ import annotations

from sandbox_service.supervisor.create_keys import BloomFilter


def test_every_used_key_is_known() -> None:
    keys = BloomFilter(f"early-{number}" for number in range(1000))
    for number in range(1000):
        keys.add(f"late-{number}")
    assert all(f"{when}-{number}" in keys for when in ("early", "late") for number in range(1000))


def test_new_keys_are_seldom_taken_for_used_ones() -> None:
    keys = BloomFilter(f"used-{number}" for number in range(20_000))
    assert sum(f"new-{number}" in keys for number in range(2000)) < 20
