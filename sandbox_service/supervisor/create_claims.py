"""Claims creates for which another supervisor is responsible, so that each is executed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import MovedError, ServiceError
from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.ownership import Claim
    from sandbox_service.trajectories.records import KeyedCreate
    from sandbox_service.wire.frames import Frame

    from .takeover import Takeover


logger = get_logger(__name__)


class CreateClaims:
    """The claims of one supervisor."""

    def __init__(self, *, name: str, store: TrajectoryStore, takeover: Takeover) -> None:
        self._name = name
        self._store = store
        self._takeover = takeover

    async def claim(self, frame: Frame, key: str, found: KeyedCreate) -> bool:
        """Return once a create that is not recorded may be executed here, and nowhere else.

        ``found`` is what the store has of it. In the frame, ``adopt_from`` is a supervisor that the gateway
        does not reach, which is responsible for it or was executing it, and ``moved_from`` is the responsible
        one, if that has passed it on. Returns whether there is a claim, which ``end_claim`` ends.

        Raises MovedError if it is another one's, and ServiceError: SUPERVISOR_UNAVAILABLE while the lease of
        one that is away holds, or if this is not its store; DRAINING; STORAGE_FULL.
        """
        tenant, away, responsible = (frame.meta.get(name) for name in ("tenant", "adopt_from", "moved_from"))
        if away:
            for owner in dict.fromkeys((responsible, away)):
                if owner not in (None, self._name):
                    await self._claim_from(str(tenant), key, str(owner))
            return True
        if found.claimant is not None and found.claimant != self._name:
            # Whoever does not reach it either asks again, and names it as away.
            raise MovedError("another supervisor is executing this create", found.claimant)
        if found.claimant is None and responsible not in (None, self._name):
            raise MovedError("this supervisor is not executing the create any more", str(responsible))
        return found.claimant is not None

    async def end_claim(self, tenant: str, key: str) -> None:
        """Let others execute the create again, or find its record. Never raises.

        A claim that is left is harmless: the record is found before it, and a create without one comes here.
        """
        try:
            await self._store.end_create_claim(tenant, key)
        except Exception as error:  # noqa: BLE001  # capture point: the create has its answer already
            logger.warning("create_claim_left", reason=str(error))

    async def _claim_from(self, tenant: str, key: str, owner: str) -> None:
        claim: Claim | None = None
        # A file that had another name before counts as shared, and yet is one node's.
        if self._store.is_shared():
            claim = await self._takeover.fence(owner, lambda: self._store.claim_create(tenant, key, owner))
        if claim is None or not claim.known:
            detail = f"supervisor {owner} does not answer, and its store is its own"
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
        if claim.holder and claim.holder != self._name:
            raise MovedError("another supervisor is executing this create", claim.holder)
        if not claim.taken:
            detail = "another supervisor has claimed this create at the same moment"
            raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
