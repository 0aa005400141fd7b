"""Run an agent that is a Python function: imported once, called once per episode."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from sandbox_client.agent import AgentEpisode
from sandbox_client.sync_agent import SyncAgentEpisode
from trainer.error_text import error_text
from trainer.errors import AgentFailed, ConfigError

if TYPE_CHECKING:
    from .launcher import AgentJob

AgentFunction: TypeAlias = Callable[..., object]
"""Takes an AgentEpisode, or a SyncAgentEpisode if it is no coroutine function."""


def import_agent(name: str) -> AgentFunction:
    """Return the function that ``module:function`` names; the working directory comes first in the search.

    Raises ConfigError if the module does not import, or has no such function.
    """
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        why = error_text(error)
        raise ConfigError(f"agent {name!r}: {module_name} cannot be imported from {here}: {why}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ConfigError(f"agent {name!r}: {module_name} has no function {attribute}")
    return function  # type: ignore[no-any-return]


class FunctionAgents:
    """Calls one function for many episodes at a time."""

    def __init__(self, function: AgentFunction) -> None:
        self._function = function
        # All episodes share connections: those of its own would cost each more than its requests do.
        self._transport = AiohttpTransport(client=_open_session)
        self._thread_transport = httpx.HTTPTransport(verify=False, limits=httpx.Limits())
        self._awaits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object's own method decides
        )

    async def run(self, job: AgentJob) -> None:
        """Call the function. Raises AgentFailed with what it raised.

        A function that runs in a thread goes on after a cancellation: threads cannot be ended.
        """
        if self._awaits:
            await self._run_here(job)
        else:
            await _in_thread(lambda: self._run_in_thread(job))

    async def _run_here(self, job: AgentJob) -> None:
        try:
            url, transport = job.task.episode_url, self._transport
            async with AgentEpisode(url, job.api_key, task=job.task, transport=transport) as episode:
                result = self._function(episode)
                if isinstance(result, Awaitable):
                    await result
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise AgentFailed("CancelledError: the agent cancelled itself") from None
        except BaseException as error:
            raise _failed(error) from error

    def _run_in_thread(self, job: AgentJob) -> None:
        try:
            url, transport = job.task.episode_url, self._thread_transport
            with SyncAgentEpisode(url, job.api_key, task=job.task, transport=transport) as episode:
                _check_ended(self._function(episode))
        except BaseException as error:
            raise _failed(error) from error


def _open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar())


def _check_ended(result: object) -> None:
    """Raise TypeError for what a function returns that has not run yet, such as a coroutine."""
    if not (inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)):
        return
    if inspect.iscoroutine(result):
        result.close()  # asyncio warns of coroutines that are not awaited
    raise TypeError(
        f"the agent has not run: its function is no 'async def' and returned a {type(result).__name__}; "
        "where a decorator hides that it is async, let the decorator return an 'async def'"
    )


def _failed(error: BaseException) -> AgentFailed:
    with contextlib.suppress(Exception):  # a full disk does not keep the agent's end from being reported
        traceback.print_exception(error)
    return AgentFailed(error_text(error))


async def _in_thread(work: Callable[[], None]) -> None:
    """Run work in a thread of its own: one that never ends keeps no other from beginning."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: AgentFailed | None) -> None:
        if not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def run() -> None:
        outcome: AgentFailed | None = None
        try:
            work()
        except AgentFailed as error:
            outcome = error
        except BaseException as error:  # noqa: BLE001 - a job that nothing settles would wait for its limit
            outcome = AgentFailed(type(error).__name__)
        with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="agent", daemon=True).start()
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        # The host reports the end of a job when its thread has ended, and is replaced if that takes long.
        await done
        raise
