"""Claims creates for which another supervisor is responsible, so that each is executed once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, ServiceError
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.ownership import Claim
    from sandbox_service.trajectories.records import KeyedCreate

    from .background import BackgroundTasks
    from .takeover import Takeover


_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Pauses between the attempts to end a claim that the store could not end."""

logger = get_logger(__name__)


class CreateClaims:
    """The claims of one supervisor."""

    def __init__(
        self, *, name: str, store: TrajectoryStore, takeover: Takeover, tasks: BackgroundTasks
    ) -> None:
        self._name = name
        self._store = store
        self._takeover = takeover
        self._tasks = tasks

    async def claim(self, tenant: str, key: str, found: KeyedCreate, away: str | None) -> None:
        """Return once a create may be executed here, and nowhere else; ``end_claim`` follows.

        ``found`` is what the store has of it, and ``away`` the supervisor that is responsible for it and that
        the gateway does not reach. Raises MovedError while another one is executing it, and ServiceError:
        SUPERVISOR_UNAVAILABLE while the lease of ``away`` holds, or if this is not its store; DRAINING;
        STORAGE_FULL.
        """
        holder = found.claimant or ""
        if away is not None:
            claim = await self._claim_from(tenant, key, away)
            holder = self._name if claim.taken else claim.holder
        if holder == self._name:
            return
        if holder:
            try:
                # Only once its lease has run out: then it is dead, or is fenced by this.
                claim = await self._claim_from(tenant, key, holder)
            except ServiceError as error:
                if error.code is not ErrorCode.SUPERVISOR_UNAVAILABLE:
                    raise
                raise MovedError("another supervisor is executing this create", holder) from error
            if claim.taken:
                return
        detail = "another supervisor has claimed this create at the same moment"
        raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)

    async def end_claim(self, tenant: str, key: str) -> None:
        """Let others execute the create again, or find its record. Never raises."""
        if not await self._ended(tenant, key):
            self._tasks.spawn(self._end_later(tenant, key))

    async def _end_later(self, tenant: str, key: str) -> None:
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            if self._store.is_fenced() or await self._ended(tenant, key):
                return

    async def _ended(self, tenant: str, key: str) -> bool:
        try:
            await self._store.end_create_claim(tenant, key)
        except Exception as error:  # noqa: BLE001  # capture point: the create has its answer already
            logger.warning("create_claim_left", reason=str(error))
            return False
        return True

    async def _claim_from(self, tenant: str, key: str, owner: str) -> Claim:
        claim: Claim | None = None
        # A file that had another name before counts as shared, and yet is one node's.
        if self._store.is_shared():
            claim = await self._takeover.fence(owner, lambda: self._store.claim_create(tenant, key, owner))
        if claim is None or not claim.known:
            detail = f"supervisor {owner} does not answer, and its store is its own"
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
        return claim
