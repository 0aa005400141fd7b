"""The console's episode search: the list, the histogram of rewards, and the download of what was found.

The list and the download show different parts of one selection: the wanted episodes among those that a page
looks at, whose number is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from sandbox_contract.problems import ErrorCode
from sandbox_service.console.comparison import MOST_SIDE_BY_SIDE
from sandbox_service.console.histogram import linked_bins
from sandbox_service.console.search_form import (
    EXPORT,
    FAILURES,
    SEARCH,
    FormError,
    query_of,
    read_form,
    read_line_format,
)
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.episode_export import EpisodeDownload, download_plan
from sandbox_service.gateway.episode_search import search_episodes
from sandbox_service.gateway.inspection import exchange_of
from sandbox_service.trajectories.lines import LineFormat

from .answers import as_page, page

if TYPE_CHECKING:
    from sandbox_service.console.search_form import SearchForm
    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.answer_sender import AnswerSender
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.episode_export import DownloadPlan
    from sandbox_service.gateway.fair_queue import FairQueue
    from sandbox_service.trajectories.search import EpisodePage, EpisodeQuery, EpisodeSummary, Place


_LISTED = 50
"""Episodes of a page."""


@dataclass(frozen=True, slots=True)
class SearchedEpisodes:
    """The episodes that a page looked at, and those among them that are wanted."""

    looked_at: EpisodePage
    found: Sequence[EpisodeSummary]

    @property
    def download(self) -> DownloadPlan:
        """The episodes of a download of those that are wanted."""
        return download_plan(self.found, complete=not self.looked_at.missing)

    @property
    def listed_end(self) -> Place | None:
        """The place after the last episode of the list; None if no others follow."""
        return self.found[_LISTED - 1].place if len(self.found) > _LISTED else self.looked_at.end


class ConsoleSearch:
    """Handlers of the search's pages."""

    def __init__(
        self, dispatcher: Dispatcher, registry: Registry, queue: FairQueue | None, answers: AnswerSender
    ) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._queue = queue
        self._answers = answers

    def build_router(self) -> APIRouter:
        """Return the routes, which are not part of the documented API."""
        router = APIRouter(include_in_schema=False)
        router.add_api_route(SEARCH, self.find_episodes, methods=["GET"], response_model=None)
        router.add_api_route(EXPORT, self.export_episodes, methods=["GET"], response_model=None)
        return router

    @as_page
    async def find_episodes(self, request: Request) -> Response:
        """Search the tenant's recorded episodes."""
        exchange = exchange_of(request)
        form, before = read_form(request.query_params), request.query_params.get("before", "")
        context = {
            "form": form.values,
            "environments": [each.name for each in self._registry.describe_all()],
            "failures": FAILURES,
            "most": MOST_SIDE_BY_SIDE,
        }
        try:
            query = query_of(form, exchange.tenant, before)
        except FormError as error:
            empty = {"selection": None, "episodes": (), "next_url": None, "refused": str(error)}
            return page(exchange, "episodes.html", {**context, **empty}, section="Episodes", status=422)
        selection = await self._select(request, query)
        shown = {
            "selection": selection,
            "episodes": selection.found[:_LISTED],
            "next_url": form.next_url(selection.listed_end),
            "refused": "",
            **_outlook(selection, form, query, before),
        }
        return page(exchange, "episodes.html", {**context, **shown}, section="Episodes")

    @as_page
    async def export_episodes(self, request: Request) -> Response:
        """Send the episodes that the search page found as JSONL, in a format of an export."""
        exchange = exchange_of(request)
        form, before = read_form(request.query_params), request.query_params.get("before", "")
        try:
            query = query_of(form, exchange.tenant, before)
            line_format = read_line_format(request.query_params)
        except FormError as error:
            raise ServiceError(ErrorCode.INVALID_REQUEST, str(error)) from None
        plan = (await self._select(request, query)).download
        download = EpisodeDownload(self._dispatcher, self._queue, self._answers, exchange, plan, line_format)
        await download.fetch_first()
        return download

    async def _select(self, request: Request, query: EpisodeQuery) -> SearchedEpisodes:
        looked_at = await search_episodes(self._dispatcher, exchange_of(request), query.without_outcome())
        return SearchedEpisodes(looked_at, [each for each in looked_at.episodes if query.admits(each)])


def _outlook(
    selection: SearchedEpisodes, form: SearchForm, query: EpisodeQuery, before: str
) -> dict[str, object]:
    """Return what the page says about all episodes that it looked at, beyond those that it lists."""
    looked_at, any_reward = selection.looked_at, replace(query, least_reward=None, most_reward=None)
    alike = [each for each in looked_at.episodes if any_reward.admits(each)]
    rewards = [each.reward for each in alike if each.reward is not None]
    return {
        "bins": linked_bins(rewards, form, query, before),
        "without_reward": len(alike) - len(rewards),
        "any_reward_url": form.url(least_reward="", most_reward="", before=before),
        "further_url": form.next_url(looked_at.end),
        "plan": selection.download,
        "export_url": form.url(EXPORT, before=before),
        "atif_url": form.url(EXPORT, before=before, format=LineFormat.ATIF.value),
    }
