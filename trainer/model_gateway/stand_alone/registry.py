"""Sessions by id: opened and ended by their owner, ended when idle, and kept for a while when they ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.model_gateway.calls import CallError
from trainer.model_gateway.prompts import PromptPolicy
from trainer.types import EpisodeKey, TaskRef

from . import documents
from .documents import Document, SessionFacts, SessionState
from .settings import Retention

if TYPE_CHECKING:
    from trainer.engines.generation import Sampling
    from trainer.model_gateway.budget import SessionLimits
    from trainer.model_gateway.session import Session
    from trainer.model_gateway.sessions import Sessions

    from .export import Export
    from .requests import OpenRequest, RewardRequest

logger = logging.getLogger(__name__)

_TASK = TaskRef("stand-alone", "", "")


@dataclass(frozen=True, slots=True)
class SessionDefaults:
    """The settings of a session whose owner asks for nothing else."""

    limits: SessionLimits
    """The context is also the largest that may be asked for."""
    sampling: Sampling
    prompts: PromptPolicy = PromptPolicy.SPLICE


@dataclass(slots=True, eq=False)
class _Open:
    session: Session
    facts: SessionFacts
    ending: asyncio.Task[bytes] | None = None


@dataclass(frozen=True, slots=True)
class _Ended:
    state: SessionState
    summary: Document
    overview: Document
    sequences: bytes
    """JSON, which takes a third of the memory."""

    def document(self) -> bytes:
        """Return everything that was recorded."""
        return documents.joined(self.overview, self.sequences)


class SessionRegistry:
    """The sessions of a stand-alone gateway."""

    def __init__(
        self,
        sessions: Sessions,
        defaults: SessionDefaults,
        retention: Retention | None = None,
        export: Export | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._defaults = defaults
        self._retention = retention or Retention()
        self._export = export
        self._clock = clock
        self._open: dict[str, _Open] = {}
        self._ended: OrderedDict[str, _Ended] = OrderedDict()
        self._opened = 0

    def open(self, request: OpenRequest) -> Session:
        """Open a session.

        Raises CallError: 429 if too many are open, 400 for a context beyond the engine's.
        """
        if len(self._open) >= self._retention.open_sessions:
            detail = f"{len(self._open)} sessions are open, which is the limit; delete those that have ended"
            raise CallError(429, "too_many_sessions", detail)
        prompts = request.prompts or self._defaults.prompts
        seed = secrets.randbelow(2**31) if request.seed is None else request.seed
        key = EpisodeKey(f"session-{self._opened}", _TASK, seed)
        session = self._sessions.open(key, self._defaults.sampling, self._limits(request), prompts=prompts)
        self._opened += 1
        facts = SessionFacts(session.id, prompts.value, seed, time.time(), request.metadata)
        self._open[session.id] = _Open(session, facts)
        return session

    def summaries(self) -> list[Document]:
        """Return a summary of each session, ended ones first."""
        ended = [ended.summary for ended in self._ended.values()]
        return ended + [_summary(entry) for entry in self._open.values()]

    def overview(self, name: str) -> Document:
        """Return a session's calls and messages. Raises CallError(404)."""
        if name in self._ended:
            return self._ended[name].overview
        entry = self._entry(name)
        return documents.overview(_summary(entry), entry.session.recording())

    def sequences(self, name: str) -> bytes:
        """Return a session's training sequences so far. Raises CallError(404)."""
        if name in self._ended:
            state, sequences = self._ended[name].state, self._ended[name].sequences
        else:
            state, recording = SessionState.OPEN, self._entry(name).session.recording()
            sequences = documents.as_json(documents.sequences(recording))
        return documents.joined({"id": name, "state": state}, sequences)

    def add_reward(self, name: str, request: RewardRequest) -> None:
        """Add a reward to a call.

        Raises CallError: 404 for no such session or call, 409 for a session that has ended or has no answered
        call.
        """
        if name in self._ended:
            raise CallError(409, "session_sealed", f"session {name} has ended; its recording is final")
        session = self._entry(name).session
        if not session.answered:
            raise CallError(
                409, "no_call", "no call of this session was answered yet; the reward has no place"
            )
        call_id = None if request.call_id is None else _plain_id(request.call_id, session)
        if not session.add_reward(request.reward, request.terms, 0.0, call_id):
            detail = (
                f"call_id: no answer of session {name}, and no tool call in one, has the id "
                f"{request.call_id!r}; leave call_id out for the call answered last"
            )
            raise CallError(404, "call_not_found", detail, "call_id")

    async def end_session(self, name: str, state: SessionState) -> bytes:
        """Seal a session, and return everything that was recorded; again for one that has ended.

        Raises CallError(404).
        """
        if name in self._ended:
            return self._ended[name].document()
        entry = self._entry(name)
        if entry.ending is None:
            entry.ending = asyncio.create_task(self._end(entry, state))
        return await asyncio.shield(entry.ending)

    @contextlib.asynccontextmanager
    async def maintained(self) -> AsyncIterator[None]:
        """End idle sessions while the block runs, and all others behind it."""
        expiring = asyncio.create_task(self._expire())
        try:
            yield
        finally:
            expiring.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await expiring
            for name in tuple(self._open):
                await self._end_if_open(name, SessionState.STOPPED)

    def _limits(self, request: OpenRequest) -> SessionLimits:
        limits = replace(self._defaults.limits, **request.limits.model_dump(exclude_none=True))
        most = self._defaults.limits.context_tokens
        if limits.context_tokens > most:
            detail = f"limits.context_tokens is {limits.context_tokens}; the engine's context is {most}"
            raise CallError(400, "invalid_request", detail, "limits.context_tokens")
        return limits

    def _entry(self, name: str) -> _Open:
        entry = self._open.get(name)
        if entry is None:
            raise CallError(404, "session_not_found", f"there is no session {name!r}, or no longer")
        return entry

    async def _end(self, entry: _Open, state: SessionState) -> bytes:
        self._sessions.remove(entry.session)
        recording = await entry.session.close()
        shown = _summary(entry, state)
        sequences = documents.as_json(documents.sequences(recording))
        ended = _Ended(state, shown, documents.overview(shown, recording), sequences)
        document = ended.document()
        if self._export is not None:
            await self._export.append(document)
        name = entry.session.id
        del self._open[name]
        self._ended[name] = ended
        self._forget()
        return document

    def _forget(self) -> None:
        kept = sum(len(ended.sequences) for ended in self._ended.values())
        while self._ended and (
            len(self._ended) > self._retention.ended_sessions or kept > self._retention.ended_bytes
        ):
            _, forgotten = self._ended.popitem(last=False)
            kept -= len(forgotten.sequences)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(self._retention.idle_s / 4, 30.0))
            for name in tuple(self._open):
                if self._is_idle(name):
                    logger.info("session %s expired: no call for %g s", name, self._retention.idle_s)
                    await self._end_if_open(name, SessionState.EXPIRED)

    def _is_idle(self, name: str) -> bool:
        entry = self._open.get(name)
        if entry is None or entry.ending is not None:
            return False
        return entry.session.idle_since <= self._clock() - self._retention.idle_s

    async def _end_if_open(self, name: str, state: SessionState) -> None:
        """End a session unless its owner did, while an earlier one was exported. A failure is logged."""
        if name not in self._open:
            return
        try:
            await self.end_session(name, state)
        except Exception:
            logger.exception("session %s could not be ended", name)


def _summary(entry: _Open, state: SessionState = SessionState.OPEN) -> Document:
    return documents.summary(entry.facts, state, entry.session.totals())


def _plain_id(call_id: str, session: Session) -> str:
    """Return a call's id without what dialects write around it: a prefix, and the number of an item."""
    return call_id[max(0, call_id.find(session.id)) :].partition("_")[0]
