"""A NeMo Gym resources server, so that NeMo Gym's agents, NeMo RL and verifiers play our environments.

Each environment is a resources server of its own below its name, ``http://host:port/code``, or one is at the
root. ``seed_session`` creates an instance of the row's ``task_id``, ``POST /{tool}`` is a step with one tool
call, and ``verify`` evaluates and releases. A text with which the model ends its turn is a last step, so that
environments without tools can be played; dialogues, in which a user answers it, cannot and are refused.
``task_rows`` makes the rows of a dataset.

Source: https://github.com/NVIDIA-NeMo/Gym, resources servers with ``seed_session``, tool routes, ``verify``.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web
from pydantic import BaseModel, ConfigDict, JsonValue, NonNegativeInt, ValidationError

from .conversation import assistant_message, tool_call_message
from .http_rules import explain_failures, read_object, refuse_web_pages
from .nemo_gym_metrics import AggregateMetricsRequest, aggregate
from .refusals import UnplayableError, refuse_dialogue
from .served_episode import EpisodeOverError, ServedEpisode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_contract.episodes import EvaluateResult
    from sandbox_contract.messages import Message, Tool

COOKIE = "session_id"
RESERVED = frozenset({"seed_session", "verify", "aggregate_metrics", "reverify_mode", "mcp"})
"""Names of routes, which no tool may have."""
_LARGEST_BODY = 32 * 2**20
_LARGEST_COLLECTION = 2**30
"""Of all graded rollouts of a collection, with their responses."""
_NAME = "NeMo Gym"
_SEED = 0
_FORGOTTEN_S = 3600.0
"""A session that nobody used for so long is dropped; its instance's lease has ended before."""


class DatasetRow(BaseModel):
    """The fields of a dataset row that the server reads."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    seed: NonNegativeInt | None = None
    params: dict[str, JsonValue] = {}


class NemoGymSession:
    """One rollout: its episode, and the verdict once there is one."""

    def __init__(self, served: ServedEpisode) -> None:
        self.served = served
        self.used = time.monotonic()
        self._verdict: EvaluateResult | None = None
        self._answered = False
        self._verifying = asyncio.Lock()

    def is_unused_since(self, time_s: float) -> bool:
        """Return whether it has had no call since ``time_s`` (monotonic) and is not being graded."""
        return self.used < time_s and not self._verifying.locked()

    async def verify(self, last: str) -> EvaluateResult:
        """Take the last step, evaluate and release; a repeated call gets the same verdict.

        Raises SandboxError.
        """
        async with self._verifying:
            if self._verdict is None:
                if last and not self._answered:
                    with contextlib.suppress(EpisodeOverError):
                        await self.served.step(assistant_message(last))
                    self._answered = True
                self._verdict = await self.served.evaluate()
                await self.served.end()
                # The grading may have taken longer than a session is kept.
                self.used = time.monotonic()
            return self._verdict


class NemoGymServer:
    """Resources servers of all environments, each below its name, or of one environment at the root.

    NeMo Gym's own servers are configured by host and port, and need one at the root.
    """

    def __init__(self, client: AsyncSandboxClient, environment: str | None = None) -> None:
        self._client = client
        self._environment = environment
        self._sessions: dict[str, NemoGymSession] = {}
        self._closing = False

    def application(self) -> web.Application:
        """Return the application, to be run by aiohttp; its shutdown releases all instances."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[refuse_web_pages, explain_failures])
        below = "/{environment}" if self._environment is None else ""
        app.add_routes(
            [
                web.post(below + "/seed_session", self._seed_session),
                web.post(below + "/verify", self._verify),
                web.post(below + "/aggregate_metrics", _aggregate_metrics),
                web.get(below + "/reverify_mode", _unsupported_reverification),
                web.post(below + "/{tool}", self._call_tool),
            ]
        )
        app.on_response_prepare.append(self._repeat_cookie)
        app.on_shutdown.append(self._end_all)
        return app

    async def _seed_session(self, request: web.Request) -> web.Response:
        try:
            row = DatasetRow.model_validate(await read_object(request))
        except ValidationError as error:
            raise web.HTTPUnprocessableEntity(text=f"not a row that task_rows() makes: {error}") from error
        await self._drop_forgotten()
        served = await ServedEpisode.start(
            self._client, self._name(request), row.task_id, seed=row.seed, params=row.params
        )
        try:
            refuse_dialogue(served.episode.info, _NAME)
        except UnplayableError:
            await served.end()
            raise
        if self._closing:
            await served.end()
            raise web.HTTPServiceUnavailable(text="the server is shutting down")
        key = secrets.token_urlsafe(24)
        self._sessions[key] = NemoGymSession(served)
        answer = web.json_response({"instance_id": served.episode.instance_id})
        answer.set_cookie(COOKIE, key, httponly=True)
        return answer

    async def _call_tool(self, request: web.Request) -> web.Response:
        session = self._session(request)
        message = tool_call_message(request.match_info["tool"], await read_object(request))
        try:
            turn = await session.served.step(message)
        except EpisodeOverError as error:
            raise web.HTTPConflict(text="the episode is over; no tool can be called any more") from error
        return web.Response(text=turn.text)

    async def _verify(self, request: web.Request) -> web.Response:
        """Grade the session. An infrastructure failure is an error, never a reward."""
        row = await read_object(request)
        verdict = await self._session(request).verify(last_text(row.get("response")))
        graded = {"reward": verdict.score, "success": float(verdict.success), "details": verdict.details}
        return web.json_response(row | graded)

    def _name(self, request: web.Request) -> str:
        return self._environment or request.match_info["environment"]

    def _session(self, request: web.Request) -> NemoGymSession:
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        if session is None:
            raise web.HTTPNotFound(text="no such session; call seed_session and send its cookie")
        if session.served.episode.environment != self._name(request):
            raise web.HTTPNotFound(text=f"the session is one of {session.served.episode.environment}")
        session.used = time.monotonic()
        return session

    async def _repeat_cookie(self, request: web.Request, answer: web.StreamResponse) -> None:
        # NeMo Gym's agents keep the cookies of the newest answer only. A header, since the answer's cookies
        # have become headers by now.
        key = request.cookies.get(COOKIE, "")
        if key in self._sessions and COOKIE not in answer.cookies:
            answer.headers.add("Set-Cookie", f"{COOKIE}={key}; HttpOnly; Path=/")

    async def _drop_forgotten(self) -> None:
        oldest = time.monotonic() - _FORGOTTEN_S
        forgotten = [key for key, session in self._sessions.items() if session.is_unused_since(oldest)]
        dropped = [self._sessions.pop(key) for key in forgotten]
        await asyncio.gather(*(session.served.end() for session in dropped))

    async def _end_all(self, app: web.Application) -> None:
        self._closing = True
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.served.end() for session in sessions))


async def task_rows(
    client: AsyncSandboxClient,
    environment: str,
    task_ids: Iterable[str],
    params: Mapping[str, JsonValue] | None = None,
) -> AsyncIterator[dict[str, object]]:
    """Yield a dataset row for each task: its opening messages and tools, taken from an instance of it.

    ``params`` are the environment's parameters for all rows. Raises SandboxError, UnplayableError for a
    dialogue, and ValueError for what NeMo Gym cannot express: a tool with the name of a route, and an opening
    with tool calls.
    """
    for task_id in task_ids:
        # An opening may depend on the seed, so that the row names it.
        async with client.episode(environment, task_id, seed=_SEED, params=params) as episode:
            with _named(task_id):
                refuse_dialogue(episode.info, _NAME)
                opening = [_input_of(message) for message in episode.observation.messages]
                tools = [_tool_of(tool) for tool in episode.tools]
        yield {
            "responses_create_params": {"input": opening, "tools": tools},
            "task_id": task_id,
            "seed": _SEED,
            **({"params": dict(params)} if params else {}),
            "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
        }


@contextlib.contextmanager
def _named(task_id: str) -> Iterator[None]:
    """Add to the reason why a task cannot be a row its id and the remedy."""
    remedy = "choose a split, or parameters, whose tasks can all be played"
    try:
        yield
    except UnplayableError as error:
        detail = f"{task_id}: {error.failure.detail}; {remedy}"
        raise UnplayableError(replace(error.failure, detail=detail)) from error
    except ValueError as error:
        raise ValueError(f"{task_id}: {error}; {remedy}") from error


def last_text(response: object) -> str:
    """Return the text with which a Responses object ends, or nothing if it ends with something else."""
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list) or not output or not isinstance(output[-1], dict):
        return ""
    content = output[-1].get("content") if output[-1].get("type") == "message" else None
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    text = "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
    # Half a surrogate pair, which a model may write, is no text that can be sent.
    return text.encode("utf-8", "replace").decode()


def _input_of(message: Message) -> dict[str, object]:
    if message.tool_calls or message.tool_call_id:
        raise ValueError("the opening has tool calls, which a row of NeMo Gym cannot show")
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


async def _aggregate_metrics(request: web.Request) -> web.Response:
    try:
        collection = await read_object(request.clone(client_max_size=_LARGEST_COLLECTION))
        asked = AggregateMetricsRequest.model_validate(collection)
    except ValidationError as error:
        raise web.HTTPUnprocessableEntity(text=f"no graded rollouts: {error}") from error
    return web.json_response(aggregate(asked.verify_responses))


async def _unsupported_reverification(request: web.Request) -> web.Response:
    return web.json_response("unsupported")
