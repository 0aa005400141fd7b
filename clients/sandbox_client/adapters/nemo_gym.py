"""A NeMo Gym resources server, so that NeMo Gym's agents, NeMo RL and verifiers play our environments.

Each environment is a resources server of its own below its name: ``http://host:port/code``. ``seed_session``
creates an instance of the row's ``task_id``, ``POST /{tool}`` is a step with one tool call, and ``verify``
evaluates and releases. A text with which the model ends its turn is a last step, so that environments without
tools can be played. ``task_rows`` makes the rows of a dataset.

Source: https://github.com/NVIDIA-NeMo/Gym, resources servers with ``seed_session``, tool routes, ``verify``.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import TYPE_CHECKING

from aiohttp import web
from pydantic import BaseModel, ConfigDict, JsonValue, NonNegativeInt, ValidationError

from sandbox_client.errors import SandboxError
from sandbox_contract.problems import FailureClass

from .conversation import assistant_message, tool_call_message
from .served_episode import ServedEpisode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_contract.messages import Message, Tool

COOKIE = "session_id"
RESERVED = frozenset({"seed_session", "verify", "aggregate_metrics", "reverify_mode", "mcp"})
"""Names of routes, which no tool may have."""
_LARGEST_BODY = 32 * 2**20
_FORGOTTEN_S = 3600.0
"""A session that nobody used for so long is dropped; its instance's lease has ended before."""


class DatasetRow(BaseModel):
    """The fields of a dataset row that the server reads."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    seed: NonNegativeInt | None = None
    params: dict[str, JsonValue] = {}


class NemoGymServer:
    """The resources servers of all environments of one service, and their sessions."""

    def __init__(self, client: AsyncSandboxClient) -> None:
        self._client = client
        self._sessions: dict[str, tuple[float, ServedEpisode]] = {}

    def application(self) -> web.Application:
        """Return the application, to be run by aiohttp; its shutdown releases all instances."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.add_routes(
            [
                web.post("/{environment}/seed_session", self._seed_session),
                web.post("/{environment}/verify", self._verify),
                web.post("/{environment}/aggregate_metrics", _no_metrics),
                web.get("/{environment}/reverify_mode", _unsupported_reverification),
                web.post("/{environment}/{tool}", self._call_tool),
            ]
        )
        app.on_shutdown.append(self._end_all)
        return app

    async def _seed_session(self, request: web.Request) -> web.Response:
        try:
            row = DatasetRow.model_validate(await _object_of(request))
        except ValidationError as error:
            raise web.HTTPUnprocessableEntity(text=f"not a row that task_rows() makes: {error}") from error
        await self._drop_forgotten()
        name = request.match_info["environment"]
        try:
            served = await ServedEpisode.start(
                self._client, name, row.task_id, seed=row.seed, params=row.params
            )
        except SandboxError as error:
            raise _refused(error) from error
        key = secrets.token_urlsafe(24)
        self._sessions[key] = (time.monotonic(), served)
        answer = web.json_response({"instance_id": served.episode.instance_id})
        answer.set_cookie(COOKIE, key, httponly=True)
        return answer

    async def _call_tool(self, request: web.Request) -> web.Response:
        served = self._session(request)
        if served.episode.finished:
            raise web.HTTPConflict(text="the episode is over; no tool can be called any more")
        message = tool_call_message(request.match_info["tool"], await _object_of(request))
        try:
            turn = await served.step(message)
        except SandboxError as error:
            raise _refused(error) from error
        return web.Response(text=turn.text)

    async def _verify(self, request: web.Request) -> web.Response:
        """Grade the session. An infrastructure failure is an error, never a reward."""
        row = await _object_of(request)
        served = self._session(request)
        try:
            last = last_text(row.get("response"))
            if last and not served.episode.finished:
                await served.step(assistant_message(last))
            verdict = await served.evaluate()
        except SandboxError as error:
            raise _refused(error) from error
        del self._sessions[request.cookies[COOKIE]]
        await served.end()
        graded = {"reward": verdict.score, "success": float(verdict.success), "details": verdict.details}
        return web.json_response(row | graded)

    def _session(self, request: web.Request) -> ServedEpisode:
        key = request.cookies.get(COOKIE, "")
        if key not in self._sessions:
            raise web.HTTPNotFound(text="no such session; call seed_session and send its cookie")
        served = self._sessions[key][1]
        if served.episode.environment != request.match_info["environment"]:
            raise web.HTTPNotFound(text=f"the session is one of {served.episode.environment}")
        self._sessions[key] = (time.monotonic(), served)
        return served

    async def _drop_forgotten(self) -> None:
        oldest = time.monotonic() - _FORGOTTEN_S
        for key in [key for key, (used, _) in self._sessions.items() if used < oldest]:
            await self._sessions.pop(key)[1].end()

    async def _end_all(self, app: web.Application) -> None:
        episodes = [served for _, served in self._sessions.values()]
        self._sessions.clear()
        await asyncio.gather(*(served.end() for served in episodes))


async def task_rows(
    client: AsyncSandboxClient, environment: str, task_ids: Iterable[str]
) -> AsyncIterator[dict[str, object]]:
    """Yield a dataset row for each task: its opening messages and tools, taken from an instance of it.

    Raises SandboxError, and ValueError for a tool whose name is one of NeMo Gym's routes.
    """
    for task_id in task_ids:
        async with client.episode(environment, task_id) as episode:
            opening = [_input_of(message) for message in episode.observation.messages]
            tools = [_tool_of(tool) for tool in episode.tools]
        yield {
            "responses_create_params": {"input": opening, "tools": tools},
            "task_id": task_id,
            "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
        }


def last_text(response: object) -> str:
    """Return the text with which a Responses object ends, or nothing if it ends with something else."""
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list) or not output or not isinstance(output[-1], dict):
        return ""
    content = output[-1].get("content") if output[-1].get("type") == "message" else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _input_of(message: Message) -> dict[str, object]:
    return {"role": message.role, "content": message.content or ""}


def _tool_of(tool: Tool) -> dict[str, object]:
    function = tool.function
    if function.name in RESERVED:
        raise ValueError(f"the tool {function.name!r} has the name of a route of NeMo Gym")
    return {
        "type": "function",
        "name": function.name,
        "description": function.description,
        "parameters": function.parameters,
        "strict": False,
    }


async def _object_of(request: web.Request) -> dict[str, object]:
    try:
        body = await request.json()
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise web.HTTPBadRequest(text=f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise web.HTTPUnprocessableEntity(text="the body is not a JSON object")
    return body


def _refused(error: SandboxError) -> web.HTTPException:
    """Return the HTTP error for a failed call: 4xx for the caller's mistakes, 502 or 503 for the rest."""
    text = str(error)
    if error.failure_class in (FailureClass.REQUEST, FailureClass.POLICY):
        return web.HTTPUnprocessableEntity(text=text)
    if error.failure_class is FailureClass.CAPACITY:
        return web.HTTPServiceUnavailable(text=text)
    return web.HTTPBadGateway(text=text)


async def _no_metrics(request: web.Request) -> web.Response:
    return web.json_response({})


async def _unsupported_reverification(request: web.Request) -> web.Response:
    return web.json_response("unsupported")
