"""A server that speaks OpenEnv's protocol, so that OpenEnv's clients play the service's environments.

Each environment is an OpenEnv server of its own below its name:
``GenericEnvClient("http://host:port/code")``. An action is an assistant message, ``{"content": ...}`` or
``{"tool_calls": [...]}``; an observation has ``text``, ``messages`` and, after a reset and where they change,
``tools``. ``new_session`` is true where the agent must not see what was before. ``reset`` takes ``task_id``,
or ``split`` and ``index``, and ``seed``.

Source: https://github.com/huggingface/OpenEnv, version 0.10: ``/ws``, ``/schema``, ``/metadata``, ``/health``
and the task routes of the OpenReward standard. Plain ``/reset`` and ``/step`` are stateless there and are not
served.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from typing import TYPE_CHECKING

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import BaseModel, ValidationError

from .http_rules import explain_failures, refuse_web_pages
from .openenv_session import OpenEnvSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_contract.inspection import Environment

    from .openenv_session import Fields
    from .served_episode import RewardedBy

_HEARTBEAT_S = 30.0
"""Time between pings. A client that leaves one unanswered for half as long is taken to be gone."""
_CLOSE_S = 5.0
"""Time for a client to take and answer the end of its session; at a shutdown, for all clients together."""
_LARGEST_MESSAGE = 8 * 2**20
_MOST_WAITING = 8
"""Messages that a client may send before their turn; OpenEnv's clients wait for each answer."""
_ACTION: Fields = {
    "title": "AssistantMessage",
    "type": "object",
    "properties": {
        "content": {"type": ["string", "null"], "description": "Text of the assistant's message."},
        "tool_calls": {"type": "array", "items": {"type": "object"}, "description": "OpenAI tool calls."},
    },
    "required": ["content"],
}
_OBSERVATION: Fields = {
    "title": "Observation",
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "messages": {"type": "array", "items": {"type": "object"}},
        "tools": {
            "type": "array",
            "items": {"type": "object"},
            "description": "OpenAI tools from now on; missing where nothing changes.",
        },
        "new_session": {
            "type": "boolean",
            "description": "True where the agent must not see the messages before this observation.",
        },
    },
    "required": ["text", "messages"],
}
_STATE: Fields = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer"},
        "task_id": {"type": ["string", "null"]},
    },
}


class TasksAsked(BaseModel):
    """A request of the task routes; each uses its own fields."""

    split: str
    index: int = 0
    start: int | None = None
    stop: int | None = None


class OpenEnvServer:
    """The routes of all environments of one service."""

    def __init__(self, client: AsyncSandboxClient, rewarded_by: RewardedBy = "evaluation") -> None:
        self._client = client
        self._rewarded_by: RewardedBy = rewarded_by
        self._transports: weakref.WeakKeyDictionary[web.WebSocketResponse, asyncio.Transport | None] = (
            weakref.WeakKeyDictionary()
        )

    def application(self) -> web.Application:
        """Return the application, to be run by aiohttp."""
        app = web.Application(
            client_max_size=_LARGEST_MESSAGE, middlewares=[refuse_web_pages, explain_failures]
        )
        app.on_shutdown.append(self._close_sockets)
        app.add_routes(
            [
                web.get("/health", _health),
                web.get("/list_environments", self._list_environments),
                web.get("/{environment}/health", _health),
                web.get("/{environment}/schema", self._schema),
                web.get("/{environment}/metadata", self._metadata),
                web.get("/{environment}/splits", self._splits),
                web.post("/{environment}/tasks", self._of_split(lambda ids, _: {"tasks": ids})),
                web.post("/{environment}/num_tasks", self._of_split(lambda ids, _: {"num_tasks": len(ids)})),
                web.post("/{environment}/task", self._of_split(_task_at)),
                web.post("/{environment}/task_range", self._of_split(_tasks_between)),
                web.get("/{environment}/ws", self._session),
            ]
        )
        return app

    async def _list_environments(self, request: web.Request) -> web.Response:
        return web.json_response([found.name for found in (await self._client.environments()).environments])

    async def _schema(self, request: web.Request) -> web.Response:
        await self._environment(request)
        return web.json_response(
            {
                "action": _ACTION,
                "observation": _OBSERVATION,
                "state": _STATE,
                "reset_observation": _OBSERVATION,
            }
        )

    async def _metadata(self, request: web.Request) -> web.Response:
        found = await self._environment(request)
        return web.json_response({"name": found.name, "description": found.description})

    async def _splits(self, request: web.Request) -> web.Response:
        found = await self._environment(request)
        return web.json_response([{"name": split.name, "type": _kind(split.name)} for split in found.splits])

    def _of_split(
        self, answer: Callable[[list[Fields], TasksAsked], Fields]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            found = await self._environment(request)
            try:
                asked = TasksAsked.model_validate_json(await request.read())
                profile = await self._client.get_env_profile(found.name, asked.split)
            except ValidationError as error:
                raise web.HTTPUnprocessableEntity(text=f"wrong request: {error}") from error
            tasks: list[Fields] = [{"task_id": task_id} for task_id in profile.task_ids]
            return web.json_response(answer(tasks, asked) | {"env_name": found.name})

        return handle

    async def _session(self, request: web.Request) -> web.StreamResponse:
        environment = await self._environment(request)
        socket = web.WebSocketResponse(
            timeout=_CLOSE_S, heartbeat=_HEARTBEAT_S, max_msg_size=_LARGEST_MESSAGE
        )
        await socket.prepare(request)
        self._transports[socket] = request.transport
        session = OpenEnvSession(self._client, environment, self._rewarded_by)
        asked: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)
        answering = asyncio.create_task(_answer_messages(socket, session, asked))
        try:
            await _read_messages(socket, asked)
        finally:
            answering.cancel()
            # A server that shuts down cancels this, too.
            try:
                await asyncio.wait({answering})
            finally:
                await session.end()
        if not answering.cancelled():
            answering.result()
        return socket

    async def _close_sockets(self, app: web.Application) -> None:
        # Each session then ends by itself and releases its instance.
        transports = dict(self._transports)
        closing = [asyncio.create_task(socket.close(code=WSCloseCode.GOING_AWAY)) for socket in transports]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)
        for transport in transports.values():
            if transport is not None:
                transport.abort()
        for task in closing:
            task.cancel()
        await asyncio.gather(*closing, return_exceptions=True)

    async def _environment(self, request: web.Request) -> Environment:
        name = request.match_info["environment"]
        served = {found.name: found for found in (await self._client.environments()).environments}
        if name not in served:
            raise web.HTTPNotFound(text=f"no environment {name!r}; there are {', '.join(sorted(served))}")
        return served[name]


async def _read_messages(socket: web.WebSocketResponse, asked: asyncio.Queue[str]) -> None:
    """Queue what the client sends until it leaves, and answer its pings, however long an answer takes."""
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            break
        try:
            asked.put_nowait(message.data)
        except asyncio.QueueFull:
            # A client that reads nothing would never let it drain.
            await socket.close(
                code=WSCloseCode.POLICY_VIOLATION,
                message=b"too many messages wait for their answers",
                drain=False,
            )


async def _answer_messages(
    socket: web.WebSocketResponse, session: OpenEnvSession, asked: asyncio.Queue[str]
) -> None:
    """Answer one message after another until the one that closes the session."""
    try:
        while (answer := await session.handle(await asked.get())) is not None:
            await socket.send_str(json.dumps(answer))
    except ConnectionError:
        # The client has left, which its reader sees, too.
        pass
    finally:
        await socket.close(drain=False)


def _task_at(tasks: list[Fields], asked: TasksAsked) -> Fields:
    if not 0 <= asked.index < len(tasks):
        raise web.HTTPNotFound(text=f"there is no task {asked.index}; the split has {len(tasks)}")
    return {"task": tasks[asked.index]}


def _tasks_between(tasks: list[Fields], asked: TasksAsked) -> Fields:
    return {"tasks": tasks[asked.start : asked.stop]}


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "healthy"})


def _kind(split: str) -> str:
    """Return OpenEnv's type of a split: train, validation or test."""
    return next((kind for kind in ("train", "validation") if kind in split), "test")
