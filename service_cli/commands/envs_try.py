"""``sandbox-service envs try``: play an episode by hand in the terminal."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sandbox_client import SandboxError
from sandbox_conformance.serving import serve
from sandbox_service.config.reading import read_config

from .envs_check import chosen_registry
from .options import ConfigOption
from .terminal import explained, notes, results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue
    from rich.console import Console

    from sandbox_client import AsyncEpisode
    from sandbox_contract.inspection import Environment
    from sandbox_contract.messages import Message, Tool
    from sandbox_service.environments.base import Catalog

_HELP = """\
a line            the assistant's message; lines between two lines of \"\"\" are one message
/call TOOL JSON   a tool call, such as /call look {"drawer": "left"}
/tools            the schemas of the tools
/evaluate         grade the episode as it stands
/help             this text
/quit             release the instance and leave, as Ctrl-C and Ctrl-D do"""
_QUOTES = '"""'


def try_out(
    name: Annotated[str, typer.Argument(metavar="NAME|MODULE:CLASS", help="The environment.")],
    task: Annotated[str | None, typer.Option(help="A task's id; default: the first of the split.")] = None,
    split: Annotated[str | None, typer.Option(help="Default: the environment's default split.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the instance.")] = None,
    sandbox: Annotated[
        Literal["process", "docker"], typer.Option(help="Kind of the box; process is no security boundary.")
    ] = "process",
    config: ConfigOption = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override: environments.settings.vault.size=9"),
    ] = None,
) -> None:
    """Play an episode of an environment by hand: you write the assistant's messages. No service is needed.

    Examples:

        sandbox-service envs try vault

        sandbox-service envs try vault.catalog:Vault --task test-3 --sandbox docker
    """
    with explained():
        settings = read_config(config, override or [])
        (catalog,) = chosen_registry(settings.environments, [name]).catalogs.values()
        described = catalog.describe()
        chosen = task or catalog.task_ids(split or described.default_split)[0]
        try:
            asyncio.run(_play(catalog, described, chosen, seed, sandbox))
        except KeyboardInterrupt:
            notes().print("\nreleased")


async def _play(catalog: Catalog, described: Environment, task: str, seed: int | None, sandbox: str) -> None:
    async with serve(catalog, sandbox) as service:
        async with service.client.episode(described.name, task, seed=seed) as episode:
            play = HandPlay(episode, results())
            play.show_opening(described, task)
            lines = TypedLines()
            while (text := await lines.next_message()) is not None:
                if not await play.obey(text):
                    break
        notes().print("released")


class TypedLines:
    """Messages as they are typed, read in a thread so that a Ctrl-C need not wait for the next line."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def next_message(self) -> str | None:
        """Return the next message or command; None at the end of the input."""
        line = await self._next_line("> ")
        if line is None or line.strip() != _QUOTES:
            return line
        lines: list[str] = []
        while (line := await self._next_line("... ")) is not None and line.strip() != _QUOTES:
            lines.append(line)
        return "\n".join(lines)

    async def _next_line(self, prompt: str) -> str | None:
        typed: asyncio.Future[str | None] = self._loop.create_future()

        def settle(line: str | None) -> None:
            if not typed.done():
                typed.set_result(line)

        def read() -> None:
            try:
                line: str | None = input(prompt)
            except (EOFError, OSError, ValueError):
                line = None
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(settle, line)

        # A daemon, not the loop's executor: the interpreter does not wait for it after a Ctrl-C.
        threading.Thread(target=read, daemon=True, name="input").start()
        return await typed


class HandPlay:
    """Carries out what is typed, and prints the answers."""

    def __init__(self, episode: AsyncEpisode, console: Console) -> None:
        self._episode = episode
        self._console = console

    def show_opening(self, described: Environment, task: str) -> None:
        """Print the environment's descriptor in short, the tools and the first messages."""
        self._print(f"{described.name}: {described.description}", style="bold")
        self._print(f"task {task}; at most {described.max_steps} steps; action: {described.action_format}")
        for tool in self._episode.tools:
            self._print(_signature(tool))
        self._show(self._episode.observation.messages)
        notes().print("type the assistant's message, or /help")

    async def obey(self, text: str) -> bool:
        """Carry out one message or command, and return whether to go on."""
        command, _, rest = text.strip().partition(" ")
        try:
            match command:
                case "/quit":
                    return False
                case "/help":
                    self._print(_HELP)
                case "/tools":
                    for tool in self._episode.tools:
                        self._print(json.dumps(tool.model_dump(mode="json"), indent=2, ensure_ascii=False))
                case "/evaluate":
                    await self._evaluate()
                case "/call":
                    await self._call(rest)
                case _ if command.startswith("/"):
                    self._problem(f"there is no command {command}; /help lists them")
                case _:
                    await self._step({"role": "assistant", "content": text})
        except SandboxError as error:
            self._problem(f"{error} ({error.code})")
        return True

    async def _call(self, words: str) -> None:
        name, _, written = words.strip().partition(" ")
        if not name:
            self._problem('name a tool, such as: /call look {"drawer": "left"}')
            return
        try:
            arguments = json.loads(written or "{}")
        except ValueError as error:
            self._problem(f"the arguments of {name} are no JSON: {error}")
            return
        function: dict[str, JsonValue] = {"name": name, "arguments": json.dumps(arguments)}
        call: dict[str, JsonValue] = {"id": "call_0", "type": "function", "function": function}
        await self._step({"role": "assistant", "content": None, "tool_calls": [call]})

    async def _step(self, message: dict[str, JsonValue]) -> None:
        if self._episode.finished:
            self._problem("the episode is over: /evaluate, or /quit")
            return
        result = await self._episode.step(message)
        self._show(result.observation.messages)
        self._print(f"reward {result.reward:g}", style="dim")
        if result.terminated or result.truncated:
            self._print("the episode is over" if result.terminated else "the step limit is reached")
            await self._evaluate()

    async def _evaluate(self) -> None:
        verdict = await self._episode.evaluate()
        details = f", {json.dumps(verdict.details, ensure_ascii=False)}" if verdict.details else ""
        self._print(f"score {verdict.score:g}, {'solved' if verdict.success else 'not solved'}{details}")

    def _show(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._print(f"[{message.role}] {message.content or ''}")

    def _print(self, text: str, style: str | None = None) -> None:
        # Neither markup nor control characters: a world may print what a model wrote.
        safe = "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)
        self._console.print(safe, style=style, markup=False, soft_wrap=True)

    def _problem(self, sentence: str) -> None:
        notes().print(f"error: {sentence}", markup=False, soft_wrap=True)


def _signature(tool: Tool) -> str:
    function = tool.function
    properties = (function.parameters or {}).get("properties")
    names = ", ".join(properties) if isinstance(properties, dict) else ""
    return f"tool {function.name}({names}): {function.description}"
