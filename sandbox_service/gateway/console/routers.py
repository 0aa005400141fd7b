"""All routes of the console, in the order in which FastAPI asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pages import ConsolePages
from .release import ConsoleRelease
from .runs import ConsoleRuns
from .search import ConsoleSearch
from .tasks import ConsoleTasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from sandbox_service.environments.registry import Registry
    from sandbox_service.gateway.answer_sender import AnswerSender
    from sandbox_service.gateway.auth import Authenticator
    from sandbox_service.gateway.dispatch import Dispatcher
    from sandbox_service.gateway.fair_queue import FairQueue
    from sandbox_service.gateway.metrics import Metrics


def console_routers(
    dispatcher: Dispatcher,
    registry: Registry,
    metrics: Metrics,
    authenticator: Authenticator,
    queue: FairQueue | None,
    answers: AnswerSender,
    runs: Mapping[str, str],
) -> tuple[APIRouter, ...]:
    """Return the routers of the console; ``runs`` are the folders of training runs by tenant."""
    return (
        ConsoleRuns(runs).build_router(),
        ConsoleTasks(dispatcher, registry).build_router(),
        ConsoleSearch(dispatcher, registry, queue, answers).build_router(),
        ConsoleRelease(dispatcher).build_router(),
        # The last, since it answers all other paths of the console.
        ConsolePages(dispatcher, metrics, authenticator, queue).build_router(),
    )
