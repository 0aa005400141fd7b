"""Describe the failure of an episode; the description decides whether it is retried."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_client import SandboxError
from trainer.errors import AgentFailed, JudgeFailed, RewardFailed, TeacherFailed
from trainer.types import FailureNote

if TYPE_CHECKING:
    from trainer.errors import EngineError, Stalled


ENGINE = "engine"
"""Failure class of the trainer's own engines."""
TIMEOUT = "timeout"
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


AGENT = "agent"
"""Failure class of the run's agent, where it never reached the model or its host was lost."""
REWARD = "reward"
"""Failure class of the run's reward function."""
JUDGE = "judge"
"""Failure class of a model that grades."""
TEACHER = "teacher"
"""Failure class of a model that the policy learns from."""


def note_of(
    error: SandboxError | EngineError | Stalled | AgentFailed | RewardFailed | TeacherFailed,
    phase: str,
    instance_id: str,
) -> FailureNote:
    """Return the note of a failure, with the service's own fields if the service reported it.

    A wait that passed its deadline is an engine failure while a turn was sampled, otherwise a timeout.
    """
    if isinstance(error, SandboxError):
        return FailureNote(
            failure_class=error.failure_class.value,
            code=str(error.code),
            detail=str(error),
            phase=phase,
            instance_id=instance_id or error.failure.instance_id or "",
            retry_after_s=error.retry_after_s,
        )
    return FailureNote(
        failure_class=_class_of(error, phase),
        code=_WORD.sub("_", type(error).__name__).lower(),
        detail=str(error),
        phase=phase,
        instance_id=instance_id,
    )


def _class_of(error: EngineError | Stalled | AgentFailed | RewardFailed | TeacherFailed, phase: str) -> str:
    if isinstance(error, TeacherFailed):
        return TEACHER
    if isinstance(error, RewardFailed):
        return JUDGE if isinstance(error, JudgeFailed) else REWARD
    if isinstance(error, AgentFailed):
        return AGENT
    return TIMEOUT if isinstance(error, TimeoutError) and phase != "generate" else ENGINE
