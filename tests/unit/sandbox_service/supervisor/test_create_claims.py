"""A claim of a create ends, or is left, and keeps no supervisor from ending."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from sandbox_service.supervisor import create_claims
from sandbox_service.supervisor.create_claims import CreateClaims
from sandbox_service.supervisor.takeover import Takeover
from tests.fakes.trajectories import MemoryTrajectoryStore


class _HangingStore(MemoryTrajectoryStore):
    async def end_create_claim(self, tenant: str, key: str) -> None:
        await asyncio.Event().wait()


async def test_a_store_that_hangs_has_the_claim_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_claims, "END_S", 0.05)
    claims = CreateClaims(name="s1", store=_HangingStore(), takeover=cast("Takeover", None))
    async with asyncio.timeout(60):
        await claims.end_claim("acme", "k")
