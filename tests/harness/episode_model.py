"""A model of the supervisor's instances, so simple that it is plainly right."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import LeaseConfig

__all__ = ["ModelInstance", "gone_code"]

STEPS_TO_FINISH = 10
IDLE_S = LeaseConfig().idle_timeout_s

_GONE = {
    "released": ErrorCode.INSTANCE_RELEASED,
    "expired": ErrorCode.INSTANCE_EXPIRED,
    "lost": ErrorCode.INSTANCE_LOST,
}


@dataclass
class ModelInstance:
    """One instance as its owner knows it."""

    instance_id: str
    tenant: str
    environment: str
    used_at: float
    steps: int = 0
    state: str = "active"
    answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Key to the content that was sent and the bytes that came."""

    @property
    def live(self) -> bool:
        return self.state == "active"

    @property
    def finished(self) -> bool:
        return self.steps >= STEPS_TO_FINISH

    @property
    def deterministic(self) -> bool:
        return self.environment != "diary"

    @property
    def score(self) -> float:
        return min(1.0, self.steps / STEPS_TO_FINISH)

    def expire_at(self, now: float) -> None:
        if self.live and now - self.used_at >= IDLE_S:
            self.state = "expired"

    def lose_state(self) -> None:
        if self.live and not self.deterministic:
            self.state = "lost"

    def fork(self, copy_id: str, now: float) -> ModelInstance:
        return ModelInstance(copy_id, self.tenant, self.environment, now, self.steps)


def gone_code(instance: ModelInstance) -> ErrorCode:
    """The code that a call on an ended instance is refused with."""
    return _GONE[instance.state]
