"""Claims creates for which another supervisor is responsible, so that each is executed once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, ServiceError
from sandbox_service.stream.routing import MOVED_FROM, TAKE_OVER_FROM
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.ownership import Claim
    from sandbox_service.trajectories.records import KeyedCreate
    from sandbox_service.wire.frames import Frame

    from .takeover import Takeover


END_S = 5.0
"""Time for the store to end a claim, so that a store that hangs does not keep a supervisor from ending."""

logger = get_logger(__name__)


class CreateClaims:
    """The claims of one supervisor."""

    def __init__(self, *, name: str, store: TrajectoryStore, takeover: Takeover) -> None:
        self._name = name
        self._store = store
        self._takeover = takeover

    async def claim(self, frame: Frame, key: str, found: KeyedCreate) -> bool:
        """Return once a create that is not recorded may be executed here, and nowhere else.

        ``found`` is what the store has of it. In the frame, ``TAKE_OVER_FROM`` is a supervisor that the
        gateway does not reach, which is responsible for it or was executing it, and ``MOVED_FROM`` is the
        responsible one, if that has passed it on. Returns whether there is a claim, which ``end_claim`` ends.

        Raises MovedError if it is another one's, and ServiceError: SUPERVISOR_UNAVAILABLE while the lease of
        one that is away holds, or if this is not its store; DRAINING; STORAGE_FULL.
        """
        tenant, away, responsible = (frame.meta.get(name) for name in ("tenant", TAKE_OVER_FROM, MOVED_FROM))
        if found.claimant is None and responsible == self._name:
            return False
        if away:
            owners = [str(each) for each in dict.fromkeys((responsible, away)) if each]
            await self._claim_from(str(tenant), key, [each for each in owners if each != self._name])
            return True
        if found.claimant is not None and found.claimant != self._name:
            # Whoever does not reach it either asks again, and names it as away.
            raise MovedError("another supervisor is executing this create", found.claimant)
        if found.claimant is None and responsible is not None:
            raise MovedError("this supervisor is not executing the create any more", str(responsible))
        return found.claimant is not None

    async def end_claim(self, tenant: str, key: str) -> None:
        """Let others execute the create again, or find its record. Never raises.

        A claim that is left is harmless: the record is found before it, and a create without one comes here.
        """
        try:
            async with asyncio.timeout(END_S):
                await self._store.end_create_claim(tenant, key)
        except Exception as error:  # noqa: BLE001  # capture point: the create has its answer already
            logger.warning("create_claim_left", reason=str(error) or "the store is late")

    async def _claim_from(self, tenant: str, key: str, owners: Sequence[str]) -> None:
        """Fence the owners one after the other, and claim the create; leave no claim behind a failure."""
        claimed = False
        try:
            for number, owner in enumerate(owners):
                claim = await self._claim_of(tenant, key, owner)
                claimed = claim.taken
                # One that is executing it may be the next to be fenced.
                if not claimed and claim.holder not in owners[number + 1 :]:
                    raise _refusal(claim)  # noqa: TRY301 (its claim is ended below)
        except BaseException:
            if claimed:
                await self.end_claim(tenant, key)
            raise

    async def _claim_of(self, tenant: str, key: str, owner: str) -> Claim:
        claim: Claim | None = None
        # A file that had another name before counts as shared, and yet is one node's.
        if self._store.is_shared():
            claim = await self._takeover.fence(owner, lambda: self._store.claim_create(tenant, key, owner))
        if claim is None or not claim.known:
            detail = f"supervisor {owner} does not answer, and its store is its own"
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
        return claim


def _refusal(claim: Claim) -> ServiceError:
    if claim.holder:
        return MovedError("another supervisor is executing this create", claim.holder)
    detail = "another supervisor has claimed this create at the same moment"
    return ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
