"""Search the episodes that a tenant's supervisors have recorded, through the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from sandbox_service.trajectories.search import EpisodePage, EpisodeQuery, merge_pages
from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from .dispatch import Dispatcher
    from .exchange import HttpExchange


_QUERY: TypeAdapter[EpisodeQuery] = TypeAdapter(EpisodeQuery)
_PAGE: TypeAdapter[EpisodePage] = TypeAdapter(EpisodePage)


async def search_episodes(dispatcher: Dispatcher, exchange: HttpExchange, query: EpisodeQuery) -> EpisodePage:
    """Return a page of the calling tenant's episodes, the newest first, of all supervisors that answer.

    Raises ServiceError.
    """
    frames = await dispatcher.call_all(exchange, Op.SEARCH, body=_QUERY.dump_json(query))
    return merge_pages([_PAGE.validate_json(frame.body) for frame in frames], query.limit)
