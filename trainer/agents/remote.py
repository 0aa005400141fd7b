"""Play episodes with an agent that runs elsewhere: each is posted to its URL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from trainer.errors import AgentFailed, AgentLost, ConfigError

if TYPE_CHECKING:
    from .launcher import AgentJob

_ACCEPTED = 202
_AWAY = (502, 503, 504)
"""Statuses by which proxies and load balancers say that a server is down or out of reach."""
_QUOTED = 500


class RemoteAgents:
    """Implements ``AgentLauncher`` over an HTTP server.

    The end of its answer, which may be streamed, ends the episode. After 202 the agent ends it itself, by
    ``POST {episode_url}/end``.
    """

    def __init__(self, url: str, start_timeout_s: float = 120.0) -> None:
        self._url = url
        self._start_timeout_s = start_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open connections. Raises ConfigError if nothing listens at the URL."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()
        )
        timeout = aiohttp.ClientTimeout(total=self._start_timeout_s)
        try:
            async with self._session.head(self._url, timeout=timeout, allow_redirects=False):
                pass  # any status: it is there
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            await self.close()
            why = str(error) or type(error).__name__
            raise ConfigError(f"agent: {self._url} cannot be reached: {why}") from error

    async def run(self, job: AgentJob) -> None:
        """See AgentLauncher. An agent elsewhere learns from its key's refusal that its time is over."""
        if self._session is None:
            raise AgentFailed("no connection to the agent was opened")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._start_timeout_s)
        try:
            async with self._session.post(self._url, json=_body(job), timeout=timeout) as response:
                if response.status >= 300:
                    said = (await response.content.read(_QUOTED)).decode("utf-8", "replace")
                    failure = AgentLost if response.status in _AWAY else AgentFailed
                    raise failure(f"{self._url} answered {response.status}: {said}")
                if response.status != _ACCEPTED:
                    async for _ in response.content.iter_any():
                        pass  # an agent may play while it streams its answer
                    return
        except (aiohttp.ClientError, OSError) as error:
            raise AgentLost(f"{self._url}: {str(error) or type(error).__name__}") from error
        await asyncio.get_running_loop().create_future()  # cancelled when the agent has said that it ended

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _body(job: AgentJob) -> dict[str, object]:
    return {**job.task.model_dump(mode="json", exclude_none=True), "api_key": job.api_key}
