"""Send episodes as lines, as an export of the trajectory store writes them.

The lines are fetched one after another from the supervisors, so that an episode is held in memory at a time,
where it counts among the answers until its line is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi.responses import StreamingResponse

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.documents import MOST_ROW_BYTES
from sandbox_service.trajectories.lines import LineFormat

from .inspection import episode_line

if TYPE_CHECKING:
    from starlette.types import Send

    from sandbox_service.trajectories.search import EpisodeSummary

    from .answer_sender import AnswerSender
    from .dispatch import Dispatcher
    from .exchange import HttpExchange
    from .fair_queue import FairQueue


_SUFFIXES = {LineFormat.JSONL: "jsonl", LineFormat.ATIF: "atif.jsonl"}
MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of requests and answers of the episodes in a download; the newest are in it."""


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """The episodes of a download."""

    instance_ids: tuple[str, ...]
    size: int
    """Bytes of their requests and answers, which the download does not exceed by much."""
    left_out: int
    """Episodes that are too large, or too many."""
    complete: bool = True
    """All supervisors answered the search for the episodes."""


def download_plan(
    episodes: Sequence[EpisodeSummary],
    most_bytes: int = MOST_BYTES,
    most_row_bytes: int = MOST_ROW_BYTES,
    *,
    complete: bool = True,
) -> DownloadPlan:
    """Return the newest of the episodes that fit a download, the newest first."""
    chosen: list[str] = []
    size = 0
    for episode in episodes:
        if episode.size > most_row_bytes:
            continue
        if size + episode.size > most_bytes:
            break
        chosen.append(episode.instance_id)
        size += episode.size
    return DownloadPlan(tuple(chosen), size, len(episodes) - len(chosen), complete)


class EpisodeDownload(StreamingResponse):
    """A file with a line for each episode of a plan.

    An episode that was removed since the plan was made, or has no line in the format, is left out. If another
    error interrupts the download after its first line, its last chunk is missing: clients know by it that the
    file is incomplete.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        queue: FairQueue | None,
        answers: AnswerSender,
        exchange: HttpExchange,
        plan: DownloadPlan,
        line_format: LineFormat = LineFormat.JSONL,
    ) -> None:
        self._dispatcher = dispatcher
        self._queue = queue
        self._answers = answers
        self._exchange = exchange
        self._line_format = line_format
        # The answer to HEAD has no body, so that there is nothing to fetch.
        wanted = () if exchange.method == "HEAD" else plan.instance_ids
        mark = "" if plan.complete else "-incomplete"
        name = f"episodes-{len(plan.instance_ids)}{mark}.{_SUFFIXES[line_format]}"
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
        }
        self._parts = self._lines(wanted)
        self._first = b""
        super().__init__(self._content(), headers=headers, media_type="application/jsonl")

    async def fetch_first(self) -> None:
        """Fetch the first line. Raises ServiceError while an error can still be the answer."""
        self._first = await anext(self._parts, b"")

    async def stream_response(self, send: Send) -> None:
        """Send the lines; leave the answer unfinished on an error."""
        try:
            await super().stream_response(send)
        except ServiceError as error:
            self._exchange.error = error.code

    async def _content(self) -> AsyncIterator[bytes]:
        yield self._first
        async for part in self._parts:
            yield part

    async def _lines(self, instance_ids: Sequence[str]) -> AsyncIterator[bytes]:
        for instance_id in instance_ids:
            parts = await self._line(instance_id)
            self._answers.admit(self._exchange, sum(map(len, parts)))
            while parts:
                yield parts.pop(0)
            self._answers.release(self._exchange)

    async def _line(self, instance_id: str) -> list[bytes]:
        # Each line takes its turn among the tenants' requests, or a download would count as a single one.
        permit = None if self._queue is None else await self._queue.acquire(self._exchange.tenant)
        try:
            return await episode_line(self._dispatcher, self._exchange, instance_id, self._line_format)
        except ServiceError as error:
            if error.code is not ErrorCode.UNKNOWN_INSTANCE:
                raise
            return []
        finally:
            if self._queue is not None and permit is not None:
                self._queue.release(permit)
