"""Open the sessions of agents, and find them by their secrets."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING

from trainer.chat.offload import Offload

from .calls import CallError
from .prompts import PromptPolicy
from .session import Session

if TYPE_CHECKING:
    from trainer.chat import ChatTokenizer
    from trainer.engines.generation import Policy, Sampling
    from trainer.types import EpisodeKey

    from .budget import SessionLimits

_MOST_REMEMBERED = 10_000
"""Removed sessions whose late calls are answered that the episode is over."""


class Sessions:
    """The open sessions over one policy."""

    def __init__(
        self, policy: Policy, chat: ChatTokenizer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._policy = policy
        self._chat = chat
        self._clock = clock
        self._offload = Offload(shared=chat.threaded)
        # Looked up by digest: how long a look-up takes says nothing about a secret.
        self._open: dict[bytes, Session] = {}
        self._removed: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self,
        key: EpisodeKey,
        sampling: Sampling,
        limits: SessionLimits,
        *,
        prompts: PromptPolicy = PromptPolicy.SPLICE,
        checks: Callable[[int], bool] = lambda _: True,
    ) -> Session:
        """Open the session of an episode; the arguments are those of ``Session``."""
        session = Session(
            key,
            self._policy,
            self._chat,
            sampling,
            limits,
            prompts=prompts,
            checks=checks,
            offload=self._offload,
            clock=self._clock,
        )
        self._open[_digest(session.api_key)] = session
        return session

    def find(self, api_key: str) -> Session:
        """Return the session of a secret. Raises CallError: 409 if it was removed, 401 if there is none."""
        digest = _digest(api_key)
        found = self._open.get(digest)
        if found is not None:
            return found
        if digest in self._removed:
            raise CallError(409, "session_sealed", "the episode is over; this session takes no more calls")
        raise CallError(401, "invalid_api_key", "no session has this API key")

    def remove(self, session: Session) -> None:
        """Remove a session, which is sealed; its secret is refused from now on."""
        session.seal()
        digest = _digest(session.api_key)
        if self._open.pop(digest, None) is not None:
            self._removed[digest] = None
        while len(self._removed) > _MOST_REMEMBERED:
            self._removed.popitem(last=False)

    async def close(self) -> None:
        """Close and remove all sessions."""
        for session in tuple(self._open.values()):
            self.remove(session)
            await session.close()


def _digest(api_key: str) -> bytes:
    return sha256(api_key.encode("utf-8", "surrogateescape")).digest()
