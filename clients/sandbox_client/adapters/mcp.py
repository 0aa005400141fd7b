"""An MCP server that offers the tools of one instance.

The instance is created when the server starts and released when its client leaves. The server's instructions,
and its prompt ``task``, are the opening messages of the task. The answer to a call carries reward,
``terminated`` and ``truncated`` in ``_meta``, which clients do not show to models. Source:
https://modelcontextprotocol.io/specification, package mcp 2.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib.metadata
import itertools
import os
import sys
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from sandbox_client.counterparts import refuse_counterpart
from sandbox_client.errors import CounterpartFailed, PolicyError, RequestError, SandboxError
from sandbox_contract.problems import ErrorCode

from .conversation import text_of, tool_call_message
from .refusals import UnplayableError, refuse_session, refuse_texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    import anyio
    from mcp.server.context import ServerRequestContext
    from pydantic import JsonValue

    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_client.episodes import AsyncEpisode
    from sandbox_contract.episodes import EvaluateResult, StepResult
    from sandbox_contract.messages import Message

META = "training-sandbox/"
TASK_PROMPT = "task"
_CHUNK_BYTES = 65_536
_CHUNKS_AHEAD = 16
_OF_THE_SERVER = frozenset({ErrorCode.STEP_INDEX_MISMATCH, ErrorCode.INSTANCE_BUSY})


class InstanceServer:
    """The MCP handlers of one episode."""

    def __init__(self, episode: AsyncEpisode) -> None:
        self.episode = episode
        self._failure: SandboxError | None = None
        """The reason why the latest call was not carried out, where the agent is not to blame."""
        self._opening = episode.observation.messages
        self._task = text_of(self._opening)
        self._cancelled: asyncio.Task[StepResult] | None = None
        """The step of a call that the client cancelled: the service executes it all the same."""
        self._calls = itertools.count()
        self._lock = asyncio.Lock()

    def server(self) -> Server[Any]:
        """Return the server, to be run over any of MCP's transports."""
        return Server(
            f"training-sandbox-{self.episode.environment}",
            version=importlib.metadata.version("training-sandbox-client"),
            instructions=self._task,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def evaluate(self) -> EvaluateResult:
        """Grade the episode.

        Raises SandboxError: that of the latest call if the service failed at it, after which a verdict would
        be about an episode that was cut off; CounterpartFailed if any call came to a model's turn, and
        UnplayableError if any began a second session.
        """
        async with self._lock:
            await self._finish_cancelled()
        if self._failure is not None:
            raise self._failure
        return await self.episode.evaluate()

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.function.name,
                    description=tool.function.description,
                    input_schema={"type": "object", **tool.function.parameters},
                )
                for tool in self.episode.tools
            ]
        )

    async def _call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        message = tool_call_message(params.name, params.arguments or {}, f"mcp_{next(self._calls)}")
        # Clients make calls at once, and an instance takes one at a time.
        async with self._lock:
            await self._finish_cancelled()
            if self.episode.finished:
                return _answer("The episode is over; no tool can be called any more.", is_error=True)
            try:
                if isinstance(self._failure, CounterpartFailed | UnplayableError):
                    # A further call would be taken for the counterpart's message.
                    raise self._failure
                result = await self._step(message)
            except SandboxError as error:
                if _is_the_agents(error):
                    return _answer(str(error), is_error=True)
                self._failure = error
                # Not an answer of the tool, which the model would take for the outcome of its call.
                problem = {"problem_code": error.code, "failure_class": error.failure_class.value}
                raise MCPError(types.INTERNAL_ERROR, str(error), problem) from error
            self._failure = None
        meta: dict[str, object] = {
            META + "reward": result.reward,
            META + "terminated": result.terminated,
            META + "truncated": result.truncated,
        }
        messages = result.observation.messages
        return _answer(text_of(messages), _pictures(messages), meta=meta)

    async def _step(self, message: Message) -> StepResult:
        step = asyncio.create_task(self._step_uncancelled(message))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            self._cancelled = step
            raise

    async def _step_uncancelled(self, message: Message) -> StepResult:
        result = await self.episode.step(message)
        refuse_counterpart(result.info)
        refuse_session(result.info)
        return result

    async def _finish_cancelled(self) -> None:
        """Wait for the step of a cancelled call, without which the episode's next step would be refused."""
        if self._cancelled is None:
            return
        await asyncio.wait({self._cancelled})
        error = self._cancelled.exception()
        self._cancelled = None
        if error is None:
            self._failure = None
        elif isinstance(error, SandboxError) and not _is_the_agents(error):
            self._failure = error

    async def _list_prompts(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        about = f"The task of this instance: {self.episode.environment}/{self.episode.task_id}."
        return types.ListPromptsResult(prompts=[types.Prompt(name=TASK_PROMPT, description=about)])

    async def _get_prompt(
        self, context: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != TASK_PROMPT:
            raise MCPError(
                types.INVALID_PARAMS, f"there is no prompt {params.name!r}; there is {TASK_PROMPT!r}"
            )
        contents = (types.TextContent(text=self._task), *_pictures(self._opening))
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=content) for content in contents]
        )


@asynccontextmanager
async def instance_server(
    client: AsyncSandboxClient,
    environment: str,
    task_id: str,
    *,
    seed: int | None = None,
    params: Mapping[str, JsonValue] | None = None,
) -> AsyncIterator[tuple[Server[Any], InstanceServer]]:
    """Create an instance and yield its MCP server and what it serves; release the instance at the end.

    Raises SandboxError; CounterpartFailed if a model would have to play the task's counterpart, and
    UnplayableError if the task needs messages without a call, which MCP has no way to send.
    """
    async with client.episode(environment, task_id, seed=seed, params=params) as episode:
        refuse_counterpart(episode.info)
        refuse_texts(episode.info, "MCP")
        served = InstanceServer(episode)
        yield served.server(), served


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the client at standard input and output until it leaves; can be cancelled before."""
    async with stdio_server(cast("anyio.AsyncFile[str]", _standard_input())) as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


async def _standard_input() -> AsyncIterator[str]:
    """Yield the lines of standard input.

    The package's own reader cannot be cancelled while its thread waits for a line: Ctrl-C and SIGTERM would
    leave the instance as it is until the client closes its end.
    """
    if sys.stdin is None:
        # It was closed when the process began, so that descriptor 0 may be anything else now.
        return
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_CHUNKS_AHEAD)

    def read() -> None:
        # Not through sys.stdin: at exit the interpreter would wait for the lock that a read holds.
        chunk = b"more"
        with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # the loop has ended
            while chunk:
                try:
                    chunk = os.read(0, _CHUNK_BYTES)
                except OSError:  # standard input is closed
                    chunk = b""
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()

    threading.Thread(target=read, name="standard input", daemon=True).start()
    begun: list[bytes] = []
    while chunk := await chunks.get():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*begun, line)).decode("utf-8", "replace")
            begun.clear()
        begun.append(rest)
    if last := b"".join(begun):
        yield last.decode("utf-8", "replace")


def _is_the_agents(error: SandboxError) -> bool:
    """Whether an agent can be to blame for an error: never for that of a step beside another one."""
    return isinstance(error, RequestError | PolicyError) and error.code not in _OF_THE_SERVER


def _answer(
    text: str,
    pictures: Iterable[types.ImageContent] = (),
    *,
    is_error: bool = False,
    meta: dict[str, object] | None = None,
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text), *pictures], is_error=is_error, _meta=meta
    )


def _pictures(messages: Iterable[Message]) -> list[types.ImageContent]:
    """Return the pictures of messages, whose data URLs are a type and its base64."""
    urls = [url.removeprefix("data:").partition(";base64,") for each in messages for url in each.images or ()]
    return [types.ImageContent(data=data, mime_type=media_type) for media_type, _, data in urls]
